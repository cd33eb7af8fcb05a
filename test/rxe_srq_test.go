//go:build vm

package test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// sharing is an SRQ with memory for its receives, and QPs that use it; what they
// receive completes on one CQ.
type sharing struct {
	*rxeDevice
	srq  *uverbs.SRQ
	mr   *uverbs.MR
	cq   *rxeEnd // whose receive CQ it is
	next uint64  // receive to be used
}

func (d *rxeDevice) sharing(t *testing.T, maxWR uint32) *sharing {
	s := &sharing{rxeDevice: d}
	s.srq = must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: maxWR, MaxSGE: 1}))(t)
	closeLater(t, s.srq)
	s.cq = d.end(t, verbs.QPTypeUD, rxeSetup{srq: s.srq})
	s.mr = s.cq.mr
	return s
}

// pair is a sender, and a receiver that uses the SRQ.
func (s *sharing) pair(t *testing.T, typ verbs.QPType) (from, to *rxeEnd) {
	t.Helper()
	from, to = s.end(t, typ, rxeSetup{}), s.receiver(t, typ)
	closeLater(t, to.qp)
	from.connect(to)
	to.connect(from)
	return from, to
}

// receiver is a QP that nobody closes yet.
func (s *sharing) receiver(t *testing.T, typ verbs.QPType) *rxeEnd {
	t.Helper()
	to := &rxeEnd{t: t, dev: s.rxeDevice, sendCQ: s.cq.sendCQ, recvCQ: s.cq.recvCQ, mr: s.mr, access: s.cq.access}
	to.qp = must(s.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: to.sendCQ, RecvCQ: to.recvCQ, SRQ: s.srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t)
	return to
}

// fill posts n receives of 64 bytes, numbered on from first.
func (s *sharing) fill(first, n uint64) {
	s.t.Helper()
	for id := first; id < first+n; id++ {
		if _, err := s.srq.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{s.mr.SGE(int(id)*64, 64)}}}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// take has a message use the oldest receive.
func (s *sharing) take(from, to *rxeEnd) {
	s.t.Helper()
	from.post(from.numbered(s.next))
	if got := outcome(from.next(from.sendCQ)); got != fmt.Sprintf("%d SEND success", s.next) {
		s.t.Errorf("sent %q", got)
	}
	if wc := to.next(to.recvCQ); wc.WRID != s.next || wc.Imm != uint32(s.next) || wc.Status != verbs.StatusSuccess || wc.QPN != to.qp.Num() {
		s.t.Errorf("receive %d of QP %d: %+v", s.next, to.qp.Num(), wc)
	}
	s.next++
}

func (s *sharing) is(want verbs.SRQAttr) {
	s.t.Helper()
	if diff := cmp.Diff(&want, must(s.srq.Query())(s.t)); diff != "" {
		s.t.Errorf("SRQ (-want +got):\n%s", diff)
	}
}

// TestRxeSRQShared has QPs of all types use one SRQ, in the order that messages
// come. A QP that is closed leaves the receives to the others.
func TestRxeSRQShared(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	s := openRxe(t).sharing(t, 63)
	type couple struct{ from, to *rxeEnd }
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
	for _, end := range []func(*rxeEnd) error{
		func(e *rxeEnd) error { return e.qp.Close() },
		func(e *rxeEnd) error {
			return errors.Join(e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState), e.qp.Close())
		},
	} {
		from, to := s.end(t, verbs.QPTypeRC, rxeSetup{}), s.receiver(t, verbs.QPTypeRC)
		from.connect(to)
		to.connect(from)
		s.take(from, to)
		if err := end(to); err != nil {
			t.Error(err)
		}
	}
	for i := s.next; i < 40; i++ {
		s.take(all[i%4].from, all[i%4].to)
	}
}

// TestRxeSRQLimit: the event comes once an arming, when fewer are left than the
// limit, and the next arming is good for another.
func TestRxeSRQLimit(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	s := openRxe(t).sharing(t, 15)
	from, to := s.pair(t, verbs.QPTypeRC)
	limit := func() {
		t.Helper()
		if ev := s.event(); ev.Type != uverbs.EventSRQLimitReached || ev.SRQ != s.srq {
			t.Errorf("%+v", ev)
		}
	}
	quiet := func() {
		t.Helper()
		if unasked := s.srqEvents(); len(unasked) > 0 {
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
	armed := must(s.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 3, MaxSGE: 1, Limit: 2}))(t)
	closeLater(t, armed)
	if attr := must(armed.Query())(t); attr.Limit != 2 {
		t.Errorf("made with a limit of 2: %+v", attr)
	}
}

// srqEvents are the events so far of SRQs.
func (d *rxeDevice) srqEvents() (all []string) {
	d.t.Helper()
	for _, ev := range d.eventsSoFar() {
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
	rxeFabric(t)
	noLeak(t)
	s := openRxe(t).sharing(t, 15)
	from, to := s.pair(t, verbs.QPTypeRC)
	posted := uint64(0)
	refuses := func(n uint32) {
		t.Helper()
		if err := s.srq.Resize(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("to %d with %d on it: %v", n, posted-s.next, err)
		}
	}
	resize := func(n uint32) {
		t.Helper()
		if err := s.srq.Resize(n); err != nil || s.srq.MaxWR() < n {
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
				refuses(n)
			}
			s.take(from, to)
		}
		resize(n)
		s.take(from, to)
	}
	for s.next < posted {
		s.take(from, to)
	}
	for name, n := range map[string]uint32{"most": s.attr.MaxSRQWR + 1, "more than that": 1<<32 - 1} {
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
	if attr := must(s.srq.Query())(t); attr.Limit != 10 {
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
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	for field, o := range map[string]uverbs.SRQOptions{
		"MaxWR is 0":           {MaxSGE: 1},
		"DeviceAttr.MaxSRQWR":  {MaxWR: d.attr.MaxSRQWR + 1, MaxSGE: 1},
		"MaxWR 4294967295":     {MaxWR: 1<<32 - 1, MaxSGE: 1},
		"DeviceAttr.MaxSRQSGE": {MaxWR: 1, MaxSGE: d.attr.MaxSRQSGE + 1},
		"MaxSGE 4294967295":    {MaxWR: 1, MaxSGE: 1<<32 - 1},
	} {
		refusedFor(t, field, func() error { _, err := d.pd.CreateSRQ(&o); return err })
	}
	most := must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: d.attr.MaxSRQSGE}))(t)
	closeLater(t, most)
	if most.MaxSGE() != d.attr.MaxSRQSGE || most.MaxWR() < 1 {
		t.Errorf("%d, %d", most.MaxSGE(), most.MaxWR())
	}
	for name, sges := range map[string]int{"as many": int(d.attr.MaxSRQSGE), "too many": int(d.attr.MaxSRQSGE) + 1} {
		n, err := most.PostRecv([]verbs.RecvWR{{SGL: make([]verbs.SGE, sges)}})
		if bad := name == "too many"; bad != errors.Is(err, verbs.ErrInvalidWR) || bad == (n == 1) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, err := d.end(t, verbs.QPTypeRC, rxeSetup{srq: most}).qp.PostRecv(make([]verbs.RecvWR, 1)); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Errorf("a receive to a QP of an SRQ: %v", err)
	}
	gone := must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1}))(t)
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
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		s := openRxe(t).sharing(t, 15)
		from, to := s.pair(t, typ)
		otherFrom, otherTo := s.pair(t, verbs.QPTypeRC)
		s.fill(0, 10)
		s.take(otherFrom, otherTo)
		from.post(from.send(1, sendFrom, 65))
		wantSent, wantGot, wantState := "1 SEND success", "1 local QP operation error", verbs.QPStateErr
		switch {
		case typ == verbs.QPTypeRC:
			wantSent = "1 remote operation error"
		case typ == verbs.QPTypeUD && !onKernel("6.1"):
			wantGot, wantState = "1 remote invalid request", verbs.QPStateRTS
		}
		if got := outcome(from.next(from.sendCQ)); got != wantSent {
			t.Errorf("sent: %q, want %q", got, wantSent)
		}
		if got := outcome(to.next(to.recvCQ)); got != wantGot {
			t.Errorf("received: %q, want %q", got, wantGot)
		}
		to.reaches(wantState)
		var want []string
		if wantState == verbs.QPStateErr && !onKernel("6.1") {
			want = []string{"last WQE reached"}
		}
		if got := s.eventsOf(to.qp)[0]; cmp.Diff(want, got) != "" {
			t.Errorf("events %q, want %q", got, want)
		}
		s.next++
		s.take(otherFrom, otherTo)
	})
}
