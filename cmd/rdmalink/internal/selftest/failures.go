package selftest

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// statuses takes n completions, and returns their statuses.
func (p *pair) statuses(cq *uverbs.CQ, n int) (all []verbs.WC, err error) {
	for len(all) < n {
		wcs := make([]verbs.WC, n-len(all))
		got, err := cq.Wait(p.ctx, wcs)
		if err != nil {
			return all, fmt.Errorf("%d of %d completions: %w", len(all), n, err)
		}
		all = append(all, wcs[:got]...)
	}
	return all, nil
}

// wrongKey writes with an invalid key. The device flushes the requests behind that write.
func wrongKey(b *bed) (string, error) {
	if b.iwarp() {
		return "", none("iWARP does not report errors to the writer")
	}
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	to := &p.ends[1]
	write := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: p.ends[0].sgl(0, 8, 1),
		RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey() ^ 0xabcdef00}
	behind := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}
	if err := p.post(write, behind); err != nil {
		return "", err
	}
	wcs, err := p.statuses(p.ends[0].qp.SendCQ(), 2)
	if err != nil {
		return "", err
	}
	if wcs[0].Status != verbs.StatusRemAccessErr || wcs[1].Status != verbs.StatusWRFlushErr || wcs[1].WRID != behind.WRID {
		return "", fmt.Errorf("it completes with %v, and what is behind it with %v", wcs[0].Status, wcs[1].Status)
	}
	return fmt.Sprintf("%v, vendor's code %#x", wcs[0].Status, wcs[0].VendorErr), nil
}

// secondLife flushes both queues and uses the queue pairs again.
func secondLife(b *bed) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	if err := p.message(message{op: verbs.OpSend, size: 100}); err != nil {
		return "", err
	}
	const waiting = 5
	for range waiting {
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half, 8, 1)}); err != nil {
			return "", err
		}
	}
	to := p.ends[1].qp
	if err := to.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		return "", err
	}
	wcs, err := p.statuses(to.RecvCQ(), waiting)
	if err != nil {
		return "", err
	}
	for i := range wcs {
		if wcs[i].Status != verbs.StatusWRFlushErr {
			return "", fmt.Errorf("flushed receive %d: %v", i, wcs[i].Status)
		}
	}
	if b.iwarp() {
		return fmt.Sprintf("%d receives flushed; iWARP has no second life", waiting), nil
	}
	for i := range p.ends {
		if err := p.ends[i].qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			return "", err
		}
	}
	if err := p.connect(); err != nil {
		return "", err
	}
	for range 3 * depth {
		if err := p.message(message{op: verbs.OpSend, size: 100}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d receives flushed, %d messages in the second life", waiting, 3*depth), nil
}
