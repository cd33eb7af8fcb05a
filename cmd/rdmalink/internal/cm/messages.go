package cm

import (
	"context"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// makeQP creates the queue pair on the ID's device, with room for count messages in each
// direction.
func (n *conn) makeQP(d *devices, count int, cqs func() (send, recv *uverbs.CQ, err error)) (err error) {
	if n.dev, err = d.of(n.id); err != nil {
		return err
	}
	send, recv, err := cqs()
	if err != nil {
		return err
	}
	room := uint32(max(count, 1))
	n.qp, err = n.dev.pd.CreateQP(&uverbs.QPOptions{SendCQ: send, RecvCQ: recv,
		Cap: verbs.QPCap{MaxSendWR: room, MaxRecvWR: room, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	n.made.add(n.qp)
	return n.id.AttachQP(n.qp)
}

// idleCQs are for queue pairs that carry nothing.
func (n *conn) idleCQs() (send, recv *uverbs.CQ, err error) { return n.dev.idle, n.dev.idle, nil }

// ownCQs creates CQs with room for the given numbers of completions.
func (n *conn) ownCQs(count int) (send, recv *uverbs.CQ, err error) {
	var cqs [2]*uverbs.CQ
	for i := range cqs {
		if cqs[i], err = n.dev.CreateCQ(max(count, 1), &uverbs.CQOptions{Channel: n.dev.channel}); err != nil {
			return nil, nil, err
		}
		n.made.add(cqs[i])
	}
	return cqs[0], cqs[1], nil
}

// prepare creates the queue pair and posts a receive for each message.
func (n *conn) prepare(d *devices, count, size int) error {
	err := n.makeQP(d, count, func() (send, recv *uverbs.CQ, err error) { return n.ownCQs(count) })
	if err != nil || count == 0 {
		return err
	}
	if n.mr, err = n.dev.pd.AllocMR(2*size, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	n.made.add(n.mr)
	for range count {
		if _, err := n.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{n.mr.SGE(0, size)}}}); err != nil {
			return err
		}
	}
	return nil
}

func (n *conn) postSends(count, size int) error {
	for range count {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{n.mr.SGE(size, size)}}
		if _, err := n.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			return err
		}
	}
	return nil
}

// take waits for n completions, and returns an error if one of them failed.
func (n *conn) take(ctx context.Context, cq *uverbs.CQ, count int) error {
	var wcs [8]verbs.WC
	for count > 0 {
		got, err := cq.Wait(ctx, wcs[:min(count, len(wcs))])
		if err != nil {
			return err
		}
		for i := range wcs[:got] {
			if err := wcs[i].Err(); err != nil {
				return n.whyFailed(&wcs[i])
			}
		}
		count -= got
	}
	return nil
}

// whyFailed finds the reason for which a work request was dropped. The event may come a
// little after the completion.
func (n *conn) whyFailed(wc *verbs.WC) error {
	if wc.Status != verbs.StatusWRFlushErr {
		return wc.Err()
	}
	select {
	case ev := <-n.events:
		return outcome(ev, rdmacm.EventTimewaitExit)
	case <-time.After(5 * time.Second):
		return wc.Err()
	}
}

// lastSends handles the sends that the peer may have aborted by disconnecting. A peer
// disconnects when it has received them, possibly before its device has acknowledged
// them.
func (n *conn) lastSends() error {
	var wcs [8]verbs.WC
	for {
		got, err := n.qp.SendCQ().Poll(wcs[:])
		if got == 0 || err != nil {
			return err
		}
		for i := range wcs[:got] {
			if err := wcs[i].Err(); err != nil && wcs[i].Status != verbs.StatusWRFlushErr {
				return err
			}
		}
	}
}
