package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// events counts the events of a completion channel.
func events(l *lab) {
	a, b := l.byHand(verbs.QPTypeRC, nil)
	buffer := b.memory(pageSize, local)
	send := func() {
		b.receive(1, buffer.SGE(0, 64))
		succeed(a.do(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")}))
	}
	cq := b.recvCQ

	send()
	l.say("not armed, one message: %s; %d completions", quiet(cq), waiting(cq))

	check(cq.Arm(false))
	send()
	send()
	l.say("armed once, two messages: %s, then %s; %d completions", event(cq), quiet(cq), waiting(cq))

	send()
	check(cq.Arm(false))
	l.say("a message, and armed after it: %s; to poll again finds %d", quiet(cq), waiting(cq))
	send()
	l.say("the next message: %s; %d completions", event(cq), waiting(cq))

	check(cq.Arm(true))
	send()
	b.receive(1, buffer.SGE(0, 64))
	succeed(a.do(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited, Inline: []byte("urgent")}))
	l.say("armed for solicited ones, an ordinary one and a solicited one: %s; %d completions", event(cq), waiting(cq))

	check(cq.Arm(true))
	send()
	l.say("armed for solicited ones, an ordinary one alone: %s; %d completions", quiet(cq), waiting(cq))
	l.closeAll()
	async(l)
}

// async causes asynchronous events, on devices in software.
func async(l *lab) {
	network := l.network(rdmatest.RXE)
	var ends [2]*end
	for i := range ends {
		ends[i] = l.inInit(place{device: network.Host(i).Device(0).Name()}, verbs.QPTypeRC)
	}
	a, b := ends[0], ends[1]
	check(a.qp.Connect(a.path(b)))
	check(b.qp.Connect(b.path(a)))
	next := func(what string) {
		ev := must(b.dev.AsyncEvent(background))
		of := "the device"
		switch {
		case ev.Port != 0:
			of = fmt.Sprintf("port %d", ev.Port)
		case ev.QP == b.qp:
			of = "the QP"
		case ev.CQ == b.recvCQ:
			of = "the receive CQ"
		}
		l.say("%s: %v of %s", what, ev.Type, of)
	}

	device := network.Host(1).Device(0)
	device.SetLink(false)
	next("the cable is out")
	device.SetLink(true)
	next("the cable is in")
	l.say("    the queue pair is in %v", b.state())

	buffer := b.memory(pageSize, local)
	for range b.recvCQ.Cap() + 1 {
		b.receive(1, buffer.SGE(0, 64))
		a.do(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")})
	}
	next("one completion more than the CQ has room for")

	check(b.qp.Modify(&verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: true}, verbs.QPAttrState|verbs.QPAttrEnSQDAsync))
	next("the send queue is drained")

	// Cards raise this event, and since Linux 7.3 rxe. The removal of siw waits until all programs have closed it.
	card := l.network(rdmatest.MLX5).Host(0).Device(0)
	b = l.inInit(place{device: card.Name()}, verbs.QPTypeRC)
	card.Remove()
	next("the card is removed")
}

// event waits for the next event of a CQ's channel.
func event(cq *uverbs.CQ) string {
	must(cq.Channel().Get(background))
	return "an event"
}

// quiet waits a short time for an event that should not arrive, and returns the outcome.
func quiet(cq *uverbs.CQ) string {
	return noEvent(func(ctx context.Context) error {
		_, err := cq.Channel().Get(ctx)
		return err
	})
}

// noEvent calls get, which should wait until its context ends, and returns the outcome.
func noEvent(get func(context.Context) error) string {
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := get(ctx); !errors.Is(err, context.DeadlineExceeded) {
		check(err)
		return "an event"
	}
	return "no event"
}
