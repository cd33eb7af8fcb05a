package conn

import (
	"cmp"
	"math/bits"

	"github.com/goverbs/goverbs/uverbs"
)

// MakeCQs adds the missing CQs to opts. They share one completion channel. All that it creates is added to
// owned, and waits on the CQs end with the connection.
func MakeCQs(dev *uverbs.Device, opts *uverbs.QPOptions, recvEntries int, owned *Owned, ending *Ending) error {
	if opts.SendCQ != nil && opts.RecvCQ != nil {
		return nil
	}
	channel, err := dev.CreateCompChannel()
	if err != nil {
		return err
	}
	owned.Add(channel)
	for _, want := range []struct {
		cq      **uverbs.CQ
		entries int
	}{
		{&opts.SendCQ, int(opts.Cap.MaxSendWR)},
		{&opts.RecvCQ, recvEntries},
	} {
		if *want.cq != nil {
			continue
		}
		cq, err := dev.CreateCQ(roomFor(want.entries), &uverbs.CQOptions{Channel: channel})
		if err != nil {
			return err
		}
		owned.Add(cq)
		ending.Add(cq)
		*want.cq = cq
	}
	return nil
}

// roomFor rounds up as drivers round up queues, because a caller may use all work requests that
// the queue pair has room for.
func roomFor(wrs int) int { return 1 << bits.Len(uint(max(wrs, 1)-1)) }

// SetDefaults replaces zeros: 64 work requests, 1 SGE and 48 bytes of inline data, which siw and rxe always have
// room for, and a receive CQ with room for all receives.
func SetDefaults(opts *uverbs.QPOptions, recvEntries *int) {
	c := &opts.Cap
	c.MaxSendWR, c.MaxSendSGE, c.MaxInline = cmp.Or(c.MaxSendWR, 64), cmp.Or(c.MaxSendSGE, 1), cmp.Or(c.MaxInline, 48)
	if opts.SRQ != nil {
		*recvEntries = cmp.Or(*recvEntries, int(opts.SRQ.MaxWR()))
		return
	}
	c.MaxRecvWR, c.MaxRecvSGE = cmp.Or(c.MaxRecvWR, 64), cmp.Or(c.MaxRecvSGE, 1)
	*recvEntries = cmp.Or(*recvEntries, int(c.MaxRecvWR))
}
