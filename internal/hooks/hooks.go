// Package hooks has functions of package uverbs for packages rdmacm and msg. They are not part of its
// API, because each hook can have only one owner.
package hooks

// Calls has the hooks. QP is *uverbs.QP and CQ is *uverbs.CQ, which this package can't import.
type Calls[QP, CQ any] struct {
	// OnError sets a function that is called with the QP's first error: the status of a failed
	// completion, or the overflow of a CQ. It is called before the Poll or Wait that took the
	// completion returns, so when a caller sees a failed completion, f has returned. f runs
	// without locks, but goroutines that poll failed completions meanwhile wait for it, so f must
	// not poll. Call OnError once, before work is posted to the QP.
	OnError func(qp QP, f func(err error))

	// Look searches the QP's CQs for failed completions that have not been polled, and reports the
	// QP's first error to the function that OnError set. The next polls return the completions.
	Look func(qp QP)

	// RecvEmpty reports whether all receives of an iWARP QP had completed with success when it
	// failed, so a message would have found none. Look, or the poll that found the failure, has
	// to come before. It is false if that can't be known.
	RecvEmpty func(qp QP) bool

	// End records that no more work will be posted to the CQ's QPs, which have failed or are
	// about to. Wait still returns the completions that are outstanding, and fails with cause
	// after the last of them. cause must not be nil; later calls have no effect.
	// CompChannel.Get returns the CQ once.
	End func(cq CQ, cause error)

	// Wake raises an event of the CQ without a completion: CompChannel.Get returns the CQ, and
	// a goroutine in CQ.Wait polls the CQ and continues to wait. It may take effect up to 500
	// µs late.
	Wake func(cq CQ)
}

var calls any

// Set sets the hooks. Package uverbs calls it when it is initialized.
func Set[QP, CQ any](c Calls[QP, CQ]) { calls = c }

// Get returns the hooks. A package that imports uverbs calls it when it is initialized. It panics if the
// types are not those of uverbs.
func Get[QP, CQ any]() Calls[QP, CQ] { return calls.(Calls[QP, CQ]) }
