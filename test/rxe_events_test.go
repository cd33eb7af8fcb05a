//go:build vm

package test

import (
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// listener is an end whose two CQs share a channel. The send CQ makes an event
// that comes after all those which should have come, and those which should not.
type listener struct {
	*rxeEnd
	from *rxeEnd
	id   uint64
}

func (d *rxeDevice) listener(t *testing.T, typ verbs.QPType) *listener {
	l := &listener{rxeEnd: d.end(t, typ, rxeSetup{}), from: d.end(t, typ, rxeSetup{})}
	l.sendCQ = must(d.CreateCQ(128, &uverbs.CQOptions{Channel: l.recvChannel}))(t)
	closeLater(t, l.sendCQ)
	l.qp = must(d.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: l.sendCQ, RecvCQ: l.recvCQ, Cap: l.qp.Cap()}))(t)
	closeLater(t, l.qp)
	l.connect(l.from)
	l.from.connect(l.rxeEnd)
	return l
}

// get has messages arrive, sent with these flags.
func (l *listener) get(flags ...verbs.SendFlags) {
	l.t.Helper()
	for _, f := range flags {
		l.id++
		l.postRecv(l.id, 0, 100)
		wr := l.from.numbered(l.id)
		wr.Flags |= f
		l.from.post(wr)
	}
	for range flags {
		l.from.next(l.from.sendCQ)
	}
}

func (l *listener) arm(solicitedOnly bool) {
	l.t.Helper()
	if err := l.recvCQ.Arm(solicitedOnly); err != nil {
		l.t.Fatal(err)
	}
}

// quiet makes the other event, before which there is none.
func (l *listener) quiet() {
	l.t.Helper()
	if err := l.sendCQ.Arm(false); err != nil {
		l.t.Fatal(err)
	}
	l.from.postRecv(1, 0, 100)
	l.post(l.numbered(1))
	l.hears(l.sendCQ)
	l.next(l.sendCQ)
	l.from.next(l.from.recvCQ)
}

func (l *listener) polls(want int) {
	l.t.Helper()
	var wcs [64]verbs.WC
	for got := 0; got < want; {
		n, err := l.recvCQ.Poll(wcs[:])
		if err != nil {
			l.t.Fatal(err)
		}
		if got += n; got > want {
			l.t.Errorf("%d completions, want %d", got, want)
		}
	}
}

// TestRxeEvents: an arming is good for one event, of a completion that comes
// after it and is as was asked.
func TestRxeEvents(t *testing.T) {
	const plain, solicited = verbs.SendFlags(0), verbs.SendSolicited
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		onRxe(t, typ.String(), func(t *testing.T, d *rxeDevice) {
			l := d.listener(t, typ)
			l.get(plain)
			l.quiet() // it was not armed
			l.arm(false)
			l.quiet() // completions from before arming raise no event: poll after arming
			l.polls(1)
			l.get(plain, plain, solicited)
			l.hears(l.recvCQ)
			l.quiet() // one for three
			l.polls(3)
			l.arm(true)
			l.get(plain)
			l.quiet()
			l.polls(1)
			l.get(solicited)
			l.hears(l.recvCQ)
			l.quiet()
			l.get(solicited)
			l.quiet()
			l.polls(2)
			l.arm(true)
			l.arm(false) // any is more than solicited, in whatever order
			l.arm(true)
			l.get(plain)
			l.hears(l.recvCQ)
			l.quiet()
			l.polls(1)
		})
	}
}

// TestRxeEventOfError: a failed completion should count as solicited. Linux 6.1's
// rxe has it so for receives; on newer kernels, and for sends on all, it has not.
func TestRxeEventOfError(t *testing.T) {
	for _, solicitedOnly := range []bool{false, true} {
		onRxe(t, fmt.Sprint("receive, solicited only: ", solicitedOnly), func(t *testing.T, d *rxeDevice) {
			l := d.listener(t, verbs.QPTypeRC)
			l.postRecv(1, 0, 8)
			l.arm(solicitedOnly)
			l.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			if solicitedOnly && !onKernel("6.1") {
				l.polls(1)
				l.arm(false)
				l.postRecv(2, 0, 8)
			}
			l.hears(l.recvCQ)
		})
		onRxe(t, fmt.Sprint("send, solicited only: ", solicitedOnly), func(t *testing.T, d *rxeDevice) {
			l := d.listener(t, verbs.QPTypeRC)
			l.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			if err := l.sendCQ.Arm(solicitedOnly); err != nil {
				t.Fatal(err)
			}
			l.post(l.numbered(1))
			if solicitedOnly {
				for n := 0; n == 0; n, _ = l.sendCQ.Poll(make([]verbs.WC, 1)) {
				}
				l.arm(false)
				l.postRecv(2, 0, 8)
				l.hears(l.recvCQ)
				return
			}
			l.hears(l.sendCQ)
		})
	}
}
