//go:build vm

package rxe

import (
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// listener is an end whose two CQs share a channel. The send CQ makes an event
// that comes after all those which should have come, and those which should not.
type listener struct {
	*kit.RxeEnd
	from *kit.RxeEnd
	id   uint64
}

func newListener(d *kit.RxeDevice, t *testing.T, typ verbs.QPType) *listener {
	l := &listener{RxeEnd: d.End(t, typ, kit.RxeSetup{}), from: d.End(t, typ, kit.RxeSetup{})}
	l.Connect(l.from)
	l.from.Connect(l.RxeEnd)
	return l
}

// get has messages arrive, sent with these flags.
func (l *listener) get(flags ...verbs.SendFlags) {
	l.T.Helper()
	for _, f := range flags {
		l.id++
		l.PostRecv(l.id, 0, 100)
		wr := numbered(l.from, l.id)
		wr.Flags |= f
		l.from.Post(wr)
	}
	for range flags {
		l.from.Next(l.from.SendCQ)
	}
}

func (l *listener) arm(solicitedOnly bool) {
	l.T.Helper()
	if err := l.RecvCQ.Arm(solicitedOnly); err != nil {
		l.T.Fatal(err)
	}
}

// quiet makes the other event, before which there is none.
func (l *listener) quiet() {
	l.T.Helper()
	if err := l.SendCQ.Arm(false); err != nil {
		l.T.Fatal(err)
	}
	l.from.PostRecv(1, 0, 100)
	l.Post(numbered(l.RxeEnd, 1))
	hears(l.RxeEnd, l.SendCQ)
	l.Next(l.SendCQ)
	l.from.Next(l.from.RecvCQ)
}

func (l *listener) polls(want int) {
	l.T.Helper()
	var wcs [64]verbs.WC
	for got := 0; got < want; {
		n, err := l.RecvCQ.Poll(wcs[:])
		if err != nil {
			l.T.Fatal(err)
		}
		if got += n; got > want {
			l.T.Errorf("%d completions, want %d", got, want)
		}
	}
}

// TestRxeEvents checks that an arming is good for one event, of a completion that comes after it and is as was asked.
func TestRxeEvents(t *testing.T) {
	const plain, solicited = verbs.SendFlags(0), verbs.SendSolicited
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		onRxe(t, typ.String(), func(t *testing.T, d *kit.RxeDevice) {
			l := newListener(d, t, typ)
			l.get(plain)
			l.quiet() // it was not armed
			l.arm(false)
			l.quiet() // completions from before arming raise no event: poll after arming
			l.polls(1)
			l.get(plain, plain, solicited)
			hears(l.RxeEnd, l.RecvCQ)
			l.quiet() // one for three
			l.polls(3)
			l.arm(true)
			l.get(plain)
			l.quiet()
			l.polls(1)
			l.get(solicited)
			hears(l.RxeEnd, l.RecvCQ)
			l.quiet()
			l.get(solicited)
			l.quiet()
			l.polls(2)
			l.arm(true)
			l.arm(false) // any is more than solicited, in whatever order
			l.arm(true)
			l.get(plain)
			hears(l.RxeEnd, l.RecvCQ)
			l.quiet()
			l.polls(1)
		})
	}
}

// TestRxeEventOfError records whether a failed completion counts as solicited, as it should. On Linux 6.1's rxe it does
// for receives. It does not on newer kernels, nor for sends.
func TestRxeEventOfError(t *testing.T) {
	for _, solicitedOnly := range []bool{false, true} {
		onRxe(t, fmt.Sprint("receive, solicited only: ", solicitedOnly), func(t *testing.T, d *kit.RxeDevice) {
			l := newListener(d, t, verbs.QPTypeRC)
			l.PostRecv(1, 0, 8)
			l.arm(solicitedOnly)
			l.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			if solicitedOnly && !kit.OnKernel("6.1") {
				l.polls(1)
				l.arm(false)
				l.PostRecv(2, 0, 8)
			}
			hears(l.RxeEnd, l.RecvCQ)
		})
		onRxe(t, fmt.Sprint("send, solicited only: ", solicitedOnly), func(t *testing.T, d *kit.RxeDevice) {
			l := newListener(d, t, verbs.QPTypeRC)
			l.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			if err := l.SendCQ.Arm(solicitedOnly); err != nil {
				t.Fatal(err)
			}
			l.Post(numbered(l.RxeEnd, 1))
			if solicitedOnly {
				for n := 0; n == 0; n, _ = l.SendCQ.Poll(make([]verbs.WC, 1)) {
				}
				l.arm(false)
				l.PostRecv(2, 0, 8)
				hears(l.RxeEnd, l.RecvCQ)
				return
			}
			hears(l.RxeEnd, l.SendCQ)
		})
	}
}
