//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// sharing is an SRQ with memory for its receives, and QPs that use it. Their
// receives complete on one CQ.
type sharing struct {
	*kit.RxeDevice
	srq  *uverbs.SRQ
	mr   *uverbs.MR
	cq   *kit.RxeEnd // whose receive CQ it is
	next uint64      // receive to be used
}

func newSharing(d *kit.RxeDevice, t *testing.T, maxWR uint32) *sharing {
	s := &sharing{RxeDevice: d}
	s.srq = kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: maxWR, MaxSGE: 1}))(t)
	kit.CloseLater(t, s.srq)
	s.cq = d.End(t, verbs.QPTypeUD, kit.RxeSetup{SRQ: s.srq})
	s.mr = s.cq.MR
	return s
}

// pair is a sender, and a receiver that uses the SRQ.
func (s *sharing) pair(t *testing.T, typ verbs.QPType) (from, to *kit.RxeEnd) {
	t.Helper()
	from, to = s.End(t, typ, kit.RxeSetup{}), s.receiver(t, typ)
	kit.CloseLater(t, to.QP)
	from.Connect(to)
	to.Connect(from)
	return from, to
}

// receiver is a QP that nobody closes yet.
func (s *sharing) receiver(t *testing.T, typ verbs.QPType) *kit.RxeEnd {
	t.Helper()
	to := &kit.RxeEnd{T: t, Dev: s.RxeDevice, SendCQ: s.cq.SendCQ, RecvCQ: s.cq.RecvCQ, MR: s.mr, Access: s.cq.Access}
	to.QP = kit.Must(s.PD.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: to.SendCQ, RecvCQ: to.RecvCQ, SRQ: s.srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t)
	return to
}

// fill posts n receives of 64 bytes, numbered on from first.
func (s *sharing) fill(first, n uint64) {
	s.T.Helper()
	for id := first; id < first+n; id++ {
		if _, err := s.srq.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{s.mr.SGE(int(id)*64, 64)}}}); err != nil {
			s.T.Fatal(err)
		}
	}
}

// take has a message use the oldest receive.
func (s *sharing) take(from, to *kit.RxeEnd) {
	s.T.Helper()
	from.Post(numbered(from, s.next))
	if got := outcome(from.Next(from.SendCQ)); got != fmt.Sprintf("%d SEND success", s.next) {
		s.T.Errorf("sent %q", got)
	}
	if wc := to.Next(to.RecvCQ); wc.WRID != s.next || wc.Imm != uint32(s.next) || wc.Status != verbs.StatusSuccess || wc.QPN != to.QP.QPN() {
		s.T.Errorf("receive %d of QP %d: %+v", s.next, to.QP.QPN(), wc)
	}
	s.next++
}

func (s *sharing) is(want verbs.SRQAttr) {
	s.T.Helper()
	if diff := cmp.Diff(&want, kit.Must(s.srq.Query())(s.T)); diff != "" {
		s.T.Errorf("SRQ (-want +got):\n%s", diff)
	}
}

// TestRxeSRQShared has QPs of all types use one SRQ, in the order that messages
// come. A QP that is closed leaves the receives to the others.
func TestRxeSRQShared(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	s := newSharing(kit.OpenRxe(t), t, 63)
	type couple struct{ from, to *kit.RxeEnd }
	var all []couple
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeRC} {
		from, to := s.pair(t, typ)
		all = append(all, couple{from, to})
	}
	s.fill(0, 40)
	for i := range 16 {
		s.take(all[i%4].from, all[i%4].to)
	}
	if err := s.srq.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "QP") {
		t.Errorf("closed under its QPs: %v", err)
	}
	for _, end := range []func(*kit.RxeEnd) error{
		func(e *kit.RxeEnd) error { return e.QP.Close() },
		func(e *kit.RxeEnd) error {
			return errors.Join(e.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState), e.QP.Close())
		},
	} {
		from, to := s.End(t, verbs.QPTypeRC, kit.RxeSetup{}), s.receiver(t, verbs.QPTypeRC)
		from.Connect(to)
		to.Connect(from)
		s.take(from, to)
		if err := end(to); err != nil {
			t.Error(err)
		}
	}
	for i := s.next; i < 40; i++ {
		s.take(all[i%4].from, all[i%4].to)
	}
}

// TestRxeSRQLimit checks that the event comes once per arming, when fewer are left than the limit, and the next arming
// is good for another.
func TestRxeSRQLimit(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	s := newSharing(kit.OpenRxe(t), t, 15)
	from, to := s.pair(t, verbs.QPTypeRC)
	limit := func() {
		t.Helper()
		if ev := event(s.RxeDevice); ev.Type != verbs.EventSRQLimitReached || ev.SRQ != s.srq {
			t.Errorf("%+v", ev)
		}
	}
	quiet := func() {
		t.Helper()
		if unasked := srqEvents(s.RxeDevice); len(unasked) > 0 {
			t.Errorf("unasked: %v", unasked)
		}
	}
	for round := range uint64(2) {
		s.fill(15*round, 15)
		s.take(from, to)
		quiet() // no limit, no event
		if err := s.srq.SetLimit(12); err != nil {
			t.Fatal(err)
		}
		s.is(verbs.SRQAttr{MaxWR: 15, MaxSGE: 1, Limit: 12})
		s.take(from, to)
		s.take(from, to)
		quiet() // 12 are not fewer than 12
		s.take(from, to)
		limit()
		s.is(verbs.SRQAttr{MaxWR: 15, MaxSGE: 1}) // the kernel disarmed it
		s.take(from, to)
		quiet()
		if err := s.srq.SetLimit(5); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			s.take(from, to)
		}
		quiet()
		s.take(from, to)
		limit()
		if err := errors.Join(s.srq.SetLimit(4), s.srq.SetLimit(0)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			s.take(from, to)
		}
		quiet() // disarmed by hand
	}
	if err := s.srq.SetLimit(16); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a limit that can never be kept: %v", err)
	}
	armed := kit.Must(s.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 3, MaxSGE: 1, Limit: 2}))(t)
	kit.CloseLater(t, armed)
	if attr := kit.Must(armed.Query())(t); attr.Limit != 2 {
		t.Errorf("made with a limit of 2: %+v", attr)
	}
}

// srqEvents are the events so far of SRQs.
func srqEvents(d *kit.RxeDevice) (all []string) {
	d.T.Helper()
	for _, ev := range eventsSoFar(d) {
		if ev.SRQ != nil {
			all = append(all, ev.Type.String())
		}
	}
	return all
}

// TestRxeSRQResize keeps the receives, in their order, wherever they stand on the
// ring, and refuses what would lose any. That the limit is kept too is how the
// kernel has it.
func TestRxeSRQResize(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	s := newSharing(kit.OpenRxe(t), t, 15)
	from, to := s.pair(t, verbs.QPTypeRC)
	posted := uint64(0)
	refuses := func(n int) {
		t.Helper()
		if err := s.srq.Resize(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("to %d with %d on it: %v", n, posted-s.next, err)
		}
	}
	resize := func(n int) {
		t.Helper()
		if err := s.srq.Resize(n); err != nil || int(s.srq.MaxWR()) < n {
			t.Fatalf("to %d: %d, %v", n, s.srq.MaxWR(), err)
		}
		s.is(verbs.SRQAttr{MaxWR: s.srq.MaxWR(), MaxSGE: 1})
	}
	for _, n := range []uint32{31, 7, 15, 100, 3, 1} {
		if room := uint64(s.srq.MaxWR()); posted-s.next < room {
			more := room - (posted - s.next)
			s.fill(posted, more)
			posted += more
		}
		if _, err := s.srq.PostRecv(make([]verbs.RecvWR, 1)); !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("full: %v", err)
		}
		for posted-s.next > uint64(n) {
			if posted-s.next == uint64(roomFor(n)+1) {
				refuses(int(n))
			}
			s.take(from, to)
		}
		resize(int(n))
		s.take(from, to)
	}
	for s.next < posted {
		s.take(from, to)
	}
	for name, n := range map[string]int{"most": int(s.Attr.MaxSRQWR) + 1, "more than that": 1<<32 - 1} {
		if err := s.srq.Resize(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	resize(15)
	if err := s.srq.SetLimit(10); err != nil {
		t.Fatal(err)
	}
	refuses(9) // fewer than the limit
	if err := s.srq.Resize(20); err != nil {
		t.Error(err)
	}
	if attr := kit.Must(s.srq.Query())(t); attr.Limit != 10 {
		t.Errorf("%+v", attr)
	}
}

// roomFor is the room of a ring that was asked for n.
func roomFor(n uint32) uint32 {
	room := uint32(1)
	for room < n {
		room = 2*room + 1
	}
	return room
}

// TestRxeSRQRefused asks for impossible SRQs; the error names the reason.
func TestRxeSRQRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	for field, o := range map[string]uverbs.SRQOptions{
		"MaxWR is 0":           {MaxSGE: 1},
		"DeviceAttr.MaxSRQWR":  {MaxWR: d.Attr.MaxSRQWR + 1, MaxSGE: 1},
		"MaxWR 4294967295":     {MaxWR: 1<<32 - 1, MaxSGE: 1},
		"DeviceAttr.MaxSRQSGE": {MaxWR: 1, MaxSGE: d.Attr.MaxSRQSGE + 1},
		"MaxSGE 4294967295":    {MaxWR: 1, MaxSGE: 1<<32 - 1},
	} {
		refusedFor(t, field, func() error { _, err := d.PD.CreateSRQ(&o); return err })
	}
	most := kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: d.Attr.MaxSRQSGE}))(t)
	kit.CloseLater(t, most)
	if most.MaxSGE() != d.Attr.MaxSRQSGE || most.MaxWR() < 1 {
		t.Errorf("%d, %d", most.MaxSGE(), most.MaxWR())
	}
	for name, sges := range map[string]int{"as many": int(d.Attr.MaxSRQSGE), "too many": int(d.Attr.MaxSRQSGE) + 1} {
		n, err := most.PostRecv([]verbs.RecvWR{{SGL: make([]verbs.SGE, sges)}})
		if bad := name == "too many"; bad != errors.Is(err, verbs.ErrInvalidWR) || bad == (n == 1) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, err := d.End(t, verbs.QPTypeRC, kit.RxeSetup{SRQ: most}).QP.PostRecv(make([]verbs.RecvWR, 1)); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Errorf("a receive to a QP of an SRQ: %v", err)
	}
	gone := kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1}))(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	_, posting := gone.PostRecv(nil)
	for name, err := range map[string]error{"post": posting, "resize": gone.Resize(2), "limit": gone.SetLimit(1), "close": gone.Close()} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRxeSRQErrors has a message be longer than the receive that the SRQ gave,
// which is used up. That ends the QP, but not a UD QP on kernels newer than 6.1;
// in any case it spares the other QPs and what else is on the SRQ.
func TestRxeSRQErrors(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		s := newSharing(kit.OpenRxe(t), t, 15)
		from, to := s.pair(t, typ)
		otherFrom, otherTo := s.pair(t, verbs.QPTypeRC)
		s.fill(0, 10)
		s.take(otherFrom, otherTo)
		from.Post(from.Send(1, kit.SendFrom, 65))
		wantSent, wantGot, wantState := "1 SEND success", "1 local QP operation error", verbs.QPStateErr
		switch {
		case typ == verbs.QPTypeRC:
			wantSent = "1 remote operation error"
		case typ == verbs.QPTypeUD && !kit.OnKernel("6.1"):
			wantGot, wantState = "1 remote invalid request", verbs.QPStateRTS
		}
		if got := outcome(from.Next(from.SendCQ)); got != wantSent {
			t.Errorf("sent: %q, want %q", got, wantSent)
		}
		if got := outcome(to.Next(to.RecvCQ)); got != wantGot {
			t.Errorf("received: %q, want %q", got, wantGot)
		}
		reaches(to, wantState)
		var want []string
		if wantState == verbs.QPStateErr && !kit.OnKernel("6.1") {
			want = []string{"last WQE reached"}
		}
		if got := eventsOf(s.RxeDevice, to.QP)[0]; cmp.Diff(want, got) != "" {
			t.Errorf("events %q, want %q", got, want)
		}
		s.next++
		s.take(otherFrom, otherTo)
	})
}
