package main

import (
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// lossless sends over a network that loses packets, as networks without flow control do under load.
func lossless(l *lab) {
	const messages = 200
	hello := verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")}
	for _, typ := range []verbs.QPType{verbs.QPTypeUC, verbs.QPTypeRC} {
		for _, percent := range []int{0, 10} {
			a, b := l.byHand(typ, func(attr *verbs.QPAttr) { attr.AckTimeout = time.Microsecond })
			buffer := b.memory(pageSize, local)
			l.network(rdmatest.RXE).SetLoss(float64(percent) / 100)
			arrived, last := 0, 1
			for range messages {
				if last > 0 { // the receive was used
					b.receive(1, buffer.SGE(0, 64))
				}
				succeed(a.do(hello))
				last = waiting(b.recvCQ)
				arrived += last
			}
			l.say("%v, %d%% of the packets lost: %d of %d messages have arrived", typ, percent, arrived, messages)
			l.network(rdmatest.RXE).SetLoss(0)
		}
	}
	a, b := l.byHand(verbs.QPTypeRC, func(attr *verbs.QPAttr) { attr.AckTimeout, attr.RetryCnt = time.Microsecond, 3 })
	b.receive(1, b.memory(pageSize, local).SGE(0, 64))
	l.network(rdmatest.RXE).SetLoss(1)
	l.say("RC, all packets lost, three retries: %v", a.do(hello))
}
