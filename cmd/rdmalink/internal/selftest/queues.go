package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// sharedReceives sends to a queue pair with an SRQ, several times around its ring.
func sharedReceives(b *environment) (string, error) {
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, srq: true})
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

// asynchronous waits for an event of the second end's SRQ or queue pair.
func (p *pair) asynchronous(ctx context.Context, want verbs.EventType) error {
	for {
		got, err := p.dev.AsyncEvent(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("wait for %v: %w", want, err)
		case got.Type != want: // of a port, say
		case got.SRQ != nil && got.SRQ != p.srq, got.QP != nil && got.QP != p.ends[1].qp:
			return fmt.Errorf("%v is of another object", want)
		default:
			return nil
		}
	}
}

// limitEvent takes receives off an SRQ until fewer are left than its limit.
func limitEvent(b *environment) (string, error) {
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, srq: true})
	if err != nil {
		return "", err
	}
	const limit, times = 4, 3
	for range times {
		for range limit {
			if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half, 8, 1)}); err != nil {
				return "", err
			}
		}
		if err := p.srq.SetLimit(limit); err != nil {
			return "", err
		}
		if attr, err := p.srq.Query(); err != nil || attr.Limit != limit {
			return "", errors.Join(err, fmt.Errorf("the limit is %d, and was set to %d", attr.Limit, limit))
		}
		for range limit {
			if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}); err != nil {
				return "", err
			}
		}
		if err := p.asynchronous(p.ctx, verbs.EventSRQLimitReached); err != nil {
			return "", err
		}
		if _, err := p.wait(p.ends[1].recvs, limit); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d events", times), nil
}

// lastReceive fails a queue pair with an SRQ. The device says when it takes no receive any more.
func lastReceive(b *environment) (string, error) {
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, srq: true})
	if err != nil {
		return "", err
	}
	if b.iwarp() {
		return "", none("iWARP has no such event")
	}
	if err := p.message(message{op: verbs.OpSend, size: 8}); err != nil {
		return "", err
	}
	if err := p.ends[1].qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		return "", err
	}
	ctx := p.ctx
	soft := b.dev.Info().Driver == verbs.DriverRXE
	if soft {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	err = p.asynchronous(ctx, verbs.EventQPLastWQEReached)
	if soft && errors.Is(err, context.DeadlineExceeded) {
		return "", none("soft RoCE of this kernel does not report it")
	}
	return "1 event", err
}

// resizeSRQ changes an SRQ's size with receives in it.
func resizeSRQ(b *environment) (string, error) {
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, srq: true})
	if err != nil {
		return "", err
	}
	const size = 4 * depth
	if err := p.srq.Resize(size); err != nil {
		return "", err
	}
	attr, err := p.srq.Query()
	if err != nil {
		return "", err
	}
	if attr.MaxWR < size {
		return "", fmt.Errorf("the SRQ has room for %d, and was given room for %d", attr.MaxWR, size)
	}
	recvs := make([]verbs.RecvWR, size)
	for i := range recvs {
		recvs[i] = verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half, 8, 1)}
	}
	if err := p.postRecv(recvs...); err != nil {
		return "", err
	}
	for i := range recvs {
		if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}); err != nil {
			return "", err
		}
		wcs, err := p.wait(p.ends[1].recvs, 1)
		if err != nil {
			return "", err
		}
		if wcs[0].WRID != recvs[i].WRID {
			return "", fmt.Errorf("message %d came in receive %d, not %d", i, wcs[0].WRID, recvs[i].WRID)
		}
	}
	return fmt.Sprintf("to %d receives", size), nil
}

// events arms a CQ, and causes an event.
func events(b *environment) (string, error) { return armed(b, false) }

// solicitedEvents sends a message without the flag before the one with it.
func solicitedEvents(b *environment) (string, error) { return armed(b, true) }

func armed(b *environment, solicited bool) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	to := &p.ends[1]
	cq := to.recvs
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
func resize(b *environment) (string, error) {
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
