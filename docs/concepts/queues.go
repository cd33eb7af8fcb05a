package main

import (
	"errors"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// queues fills a send queue.
func queues(l *lab) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		a, b := l.byHandOn(kind, verbs.QPTypeRC, nil)
		theirs := b.memory(pageSize, everything)
		room := int(a.qp.Cap().MaxSendWR)
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("8 bytes."), RemoteAddr: theirs.Addr(), RKey: theirs.RKey()}
		rounds := func(last verbs.SendFlags) (n int, err error) {
			for ; n < 25*room; n++ {
				wr.Flags = 0
				if n%room == room-1 {
					wr.Flags = last
				}
				if err := patiently(a.qp, wr); err != nil {
					return n, err
				}
				if wr.Flags != 0 { // its completion confirms all before it
					succeed(wait(a.sendCQ).Status)
				}
			}
			return n, nil
		}
		n, err := rounds(verbs.SendSignaled)
		l.say("%v: every last one of a full queue is signalled: %d rounds: %s", kind, n/room, result(err))
		n, err = rounds(0)
		l.say("%v: none is signalled: %d rounds: %s", kind, n/room, result(err))
		l.closeAll()
	}
	a, _ := l.byHand(verbs.QPTypeRC, nil)
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: make([]byte, a.qp.Cap().MaxInline+1)}})
	l.say("inline, one byte more than there is room for: errors.Is ErrInvalidWR: %v", errors.Is(err, verbs.ErrInvalidWR))
}

// patiently posts a send. If the queue is full, it tries again for a short time.
func patiently(qp *uverbs.QP, wr verbs.SendWR) (err error) {
	for range 100 {
		if _, err = qp.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrQueueFull) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}
