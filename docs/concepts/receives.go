package main

import (
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// receives sends messages to an end that has posted no receive.
func receives(l *lab) {
	hello := verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Inline: []byte("hello")}

	a, b := l.byHand(verbs.QPTypeRC, func(attr *verbs.QPAttr) { attr.RNRRetry = 3 })
	l.say("RC of RoCE, three retries: %v; the sender is in %v, the receiver in %v", a.do(hello), a.state(), b.state())
	for _, e := range []*end{a, b} {
		check(e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState))
		check(e.qp.Init(&verbs.QPAttr{Access: everything}))
	}
	b.receive(2, b.memory(pageSize, local).SGE(0, 64)) // this time before the sender is ready
	check(b.qp.Connect(b.path(a)))
	check(a.qp.Connect(a.path(b)))
	l.say("the same two after RESET, the message again: %v; received: %v", a.do(hello), wait(b.recvCQ).Status)

	a, b = l.byHand(verbs.QPTypeRC, func(attr *verbs.QPAttr) { attr.RNRRetry = 7 })
	a.post(hello)
	b.receive(2, b.memory(pageSize, local).SGE(0, 64))
	l.say("RC of RoCE, retries without end, and a receive that comes late: %v; received: %v", wait(a.sendCQ).Status, wait(b.recvCQ).Status)

	a, b = l.byHand(verbs.QPTypeUC, nil)
	first := a.do(hello)
	b.receive(2, b.memory(pageSize, local).SGE(0, 64))
	second := a.do(hello)
	wait(b.recvCQ)
	l.say("UC: %v, and again with a receive: %v; the receiver has got one message, and %d more", first, second, waiting(b.recvCQ))

	a, b = l.byHand(verbs.QPTypeUD, nil)
	datagram := hello
	datagram.AH, datagram.RemoteQPN, datagram.RemoteQKey = a.handle(b), b.qp.QPN(), qkey
	first = a.do(datagram)
	b.receive(2, b.memory(pageSize, local).SGE(0, uverbs.GRHSize+64))
	second = a.do(datagram)
	bytes := wait(b.recvCQ).ByteLen
	l.say("UD: %v, and again with a receive: %v; the receiver has got one message, of %d bytes with the GRH, and %d more",
		first, second, bytes, waiting(b.recvCQ))

	l.closeAll()
	client, server := l.connect(rdmatest.SIW, rdmacm.Config{}, nil)
	client.post(hello)
	<-client.conn.Done()
	<-server.conn.Done()
	l.say("iWARP: the client's connection has ended: %s", ended(client.conn))
	l.say("iWARP: the server's connection has ended: %s", ended(server.conn))
}

func ended(c *rdmacm.Conn) string {
	var status verbs.Status
	switch err := c.Err(); {
	case errors.Is(err, rdmacm.ErrDisconnected):
		return "the peer disconnected"
	case errors.As(err, &status):
		return fmt.Sprint(status)
	default:
		return cause(err)
	}
}
