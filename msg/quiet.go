package msg

import "github.com/goverbs/goverbs/verbs"

// quiet has most messages be sent without a completion, which costs the kernel and this
// side a few hundred instructions each. Sends complete in order, so the completion of one
// stands for the quiet ones before it.
type quiet struct {
	most int     // in a row
	last *Buffer // the latest quiet message, or nil: the last one was not quiet
	n    int     // in a row now
}

// sign makes the work request of a message that is posted next.
func (q *quiet) sign(b *Buffer) {
	b.before = q.last
	kind := kindQuiet
	if q.n < q.most {
		q.last, q.n = b, q.n+1
		b.wr[0].Flags = 0
	} else {
		q.last, q.n = nil, 0
		b.wr[0].Flags, kind = verbs.SendSignaled, kindData
	}
	b.wr[0].WRID = uint64(newWRID(b.c.id, kind, 0, b.slot))
}
