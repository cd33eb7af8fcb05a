package perf

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// sendLatency sends a message to and fro. The time stamps before this end's
// messages yield one sample for every two messages.
//
// C: run_iter_lat_send
func (r *run) sendLatency() error {
	f := r.flows[0]
	for r.more(f.sent) || r.more(f.got) {
		if r.more(f.got) && (f.sent > 0 || !r.client()) {
			if err := r.receiveOne(f); err != nil {
				return fmt.Errorf("message %d of the peer: %w", f.got+1, err)
			}
		}
		if !r.more(f.sent) {
			continue
		}
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if f.sends[0].Flags&verbs.SendSignaled != 0 {
			if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
				return fmt.Errorf("message %d: %w", f.sent, err)
			}
		}
		r.done.n.Store(int64(f.sent))
	}
	return nil
}

// receiveOne posts no receive that nothing would come for.
func (r *run) receiveOne(f *flow) error {
	if _, err := r.next(r.recvCQ, r.one[:]); err != nil {
		return err
	}
	if f.got++; f.got == 1 {
		r.startTime()
	}
	r.watch.count(1)
	if r.more(f.received) {
		return f.postRecvs(1)
	}
	return nil
}

// writeLatency exchanges WRITEs. The last byte of each is its number, which the
// other end polls for in its memory.
//
// C: run_iter_lat_write
func (r *run) writeLatency() error {
	f := r.flows[0]
	arrived, shift, err := r.lastByte(r.size)
	if err != nil {
		return err
	}
	mine := &r.mr.Bytes()[r.size-1]
	r.startTime()
	for r.more(f.sent) || r.more(f.got) {
		if r.more(f.got) && (f.sent > 0 || r.client()) {
			f.got++
			for byte(arrived.Load()>>shift) != byte(f.got) {
				if r.stopped.Load() {
					return fmt.Errorf("WRITE %d of the peer: %w", f.got, context.Cause(r.ctx))
				}
			}
		}
		if !r.more(f.sent) {
			continue
		}
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		*mine = byte(f.sent + 1)
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
			return fmt.Errorf("WRITE %d: %w", f.sent, err)
		}
		r.watch.count(1)
		r.done.n.Store(int64(f.sent))
	}
	return nil
}

// opLatency carries out one READ or atomic after the other.
//
// C: run_iter_lat
func (r *run) opLatency() error {
	f := r.flows[0]
	r.startTime()
	for r.more(f.sent) {
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
			return fmt.Errorf("%v %d: %w", r.Verb, f.sent, err)
		}
		r.watch.count(1)
		r.done.n.Store(int64(f.sent))
	}
	return nil
}
