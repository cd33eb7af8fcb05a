// Package hooks has what packages rdmacm and msg ask of package uverbs and what is not
// part of its API, because each hook has one owner. Package uverbs sets the functions.
package hooks

// QP is a *uverbs.QP and CQ is a *uverbs.CQ, which this package can't name.
type (
	QP any
	CQ any
)

var (
	// OnError has f called with the status of the QP's first completion that is no
	// success, before the Poll or Wait that took it returns. So a caller that has seen such
	// a completion finds done what f does. f runs under no lock, but those who poll such a
	// completion meanwhile wait for it, so f must not poll. It must be called before the QP
	// has work to do, and once.
	OnError func(qp QP, f func(status error))

	// End notes that no more completions will come to the CQ, because its QPs have
	// failed or are about to, and will not be used again. Wait still waits for the
	// completions that are due, and fails with cause after the last of them. cause must not
	// be nil; the first one counts. CompChannel.Get returns the CQ once.
	End func(cq CQ, cause error)

	// Wake makes an event of the CQ's without a completion: CompChannel.Get returns the
	// CQ, and a goroutine in CQ.Wait looks at the queue and goes on waiting. It may be
	// noticed up to 500 µs late.
	Wake func(cq CQ)
)
