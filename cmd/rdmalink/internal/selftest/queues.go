package selftest

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// sharedReceives sends to a queue pair with an SRQ, several times around its ring.
func sharedReceives(b *bed) (string, error) {
	p, err := b.pairWith(verbs.QPTypeRC, true)
	if err != nil {
		return "", err
	}
	const times = 4 * depth
	for i := range times {
		if err := p.message(message{op: verbs.OpSend, size: 1 + 13*i}); err != nil {
			return fmt.Sprintf("%d messages", i), err
		}
	}
	return fmt.Sprintf("%d messages", times), nil
}

// events arms a CQ, and causes an event.
func events(b *bed) (string, error) { return armed(b, false) }

// solicitedEvents sends a message without the flag before the one with it.
func solicitedEvents(b *bed) (string, error) { return armed(b, true) }

func armed(b *bed, solicited bool) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	to := &p.ends[1]
	cq := to.qp.RecvCQ()
	if err := p.message(message{op: verbs.OpSend, size: 8}); err != nil { // the CQ was armed and may have an event
		return "", err
	}
	const times = 50
	for i := range times {
		n := 1
		if solicited {
			n++
		}
		for range n {
			if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half, 8, 1)}); err != nil {
				return "", err
			}
		}
		if err := cq.Arm(solicited); err != nil {
			return "", err
		}
		for j := range n {
			wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}
			if j == n-1 {
				wr.Flags = verbs.SendSolicited
			}
			if err := p.send(wr); err != nil {
				return "", err
			}
		}
		got, err := cq.Channel().Get(p.ctx)
		if err != nil {
			return fmt.Sprintf("%d events", i), err
		}
		if got != cq {
			return "", fmt.Errorf("the event is another CQ's")
		}
		if _, err := p.wait(cq, n); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d events", times), nil
}

// resize changes a CQ's size with completions in it.
func resize(b *bed) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const waiting = 5
	cq := p.ends[0].qp.SendCQ()
	sizes := []int{4 * depth, 16 * depth, 2 * depth}
	for _, size := range sizes {
		var ids []uint64
		for range waiting {
			wr := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: p.ends[0].sgl(0, 8, 1),
				RemoteAddr: p.ends[1].mr.Addr() + half, RKey: p.ends[1].mr.RKey()}
			ids = append(ids, wr.WRID)
			if err := p.post(wr); err != nil {
				return "", err
			}
		}
		if err := cq.Resize(size); err != nil {
			return "", err
		}
		wcs, err := p.wait(cq, waiting)
		if err != nil {
			return "", err
		}
		for i := range wcs {
			if wcs[i].WRID != ids[i] {
				return "", fmt.Errorf("with %d entries completion %d is of request %d, not %d", size, i, wcs[i].WRID, ids[i])
			}
		}
	}
	return fmt.Sprintf("to %v entries, %d completions in it", sizes, waiting), nil
}
