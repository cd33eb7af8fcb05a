package main

import (
	"errors"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// queues fills a send queue.
func queues(l *lab) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		a, b := l.byHandOn(kind, uverbs.QPTypeRC, nil)
		theirs := b.memory(pageSize, everything)
		room := int(a.qp.Cap().MaxSendWR)
		wr := uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Inline: []byte("8 bytes."), RemoteAddr: theirs.Addr(), RKey: theirs.RKey()}
		rounds := func(last uverbs.SendFlags) (n int, err error) {
			for ; n < 25*room; n++ {
				wr.Flags = 0
				if n%room == room-1 {
					wr.Flags = last
				}
				if err := patiently(a.qp, wr); err != nil {
					return n, err
				}
				if wr.Flags != 0 { // its completion speaks for all before it
					succeed(wait(a.sendCQ).Status)
				}
			}
			return n, nil
		}
		n, err := rounds(uverbs.SendSignaled)
		l.say("%v: every last one of a full queue is signalled: %d rounds: %s", kind, n/room, result(err))
		n, err = rounds(0)
		l.say("%v: none is signalled: %d rounds: %s", kind, n/room, result(err))
		l.closeAll()
	}
	a, _ := l.byHand(uverbs.QPTypeRC, nil)
	_, err := a.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend, Inline: make([]byte, a.qp.Cap().MaxInline+1)}})
	l.say("inline, one byte more than there is room for: errors.Is ErrInvalidWR: %v", errors.Is(err, uverbs.ErrInvalidWR))
}

// patiently posts a send, and tries for a while if the queue is full.
func patiently(qp *uverbs.QP, wr uverbs.SendWR) (err error) {
	for range 100 {
		if _, err = qp.PostSend([]uverbs.SendWR{wr}); !errors.Is(err, uverbs.ErrQueueFull) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}
