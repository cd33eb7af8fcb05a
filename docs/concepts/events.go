package main

import (
	"context"
	"errors"
	"time"

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
}

// event waits for the next event of a CQ's channel.
func event(cq *uverbs.CQ) string {
	must(cq.Channel().Get(background))
	return "an event"
}

// quiet waits a while for an event that should not come, and returns the outcome.
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
