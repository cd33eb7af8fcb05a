// Package hooks has functions of package uverbs for packages rdmacm and msg. They are not part of its
// API, because each hook can have only one owner. Package uverbs sets the variables.
package hooks

// QP is a *uverbs.QP and CQ is a *uverbs.CQ. This package can't import uverbs.
type (
	QP any
	CQ any
)

var (
	// OnError sets a function that is called with the status of the QP's first failed
	// completion, before the Poll or Wait that took the completion returns. So when a caller
	// sees a failed completion, f has returned. f runs without locks, but goroutines that poll
	// failed completions meanwhile wait for it, so f must not poll. Call OnError once, before
	// work is posted to the QP.
	OnError func(qp QP, f func(status error))

	// End records that no more work will be posted to the CQ's QPs, which have failed or are
	// about to. Wait still returns the completions that are outstanding, and fails with cause
	// after the last of them. cause must not be nil; later calls have no effect.
	// CompChannel.Get returns the CQ once.
	End func(cq CQ, cause error)

	// Wake raises an event of the CQ without a completion: CompChannel.Get returns the CQ, and
	// a goroutine in CQ.Wait polls the CQ and continues to wait. It may take effect up to 500
	// µs late.
	Wake func(cq CQ)
)
