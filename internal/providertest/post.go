package providertest

import (
	"bytes"
	"context"

	"github.com/goverbs/goverbs/verbs"
)

// grh is how much stands in front of what a datagram brings.
func (p *Pair) grh() int {
	if p.Type == verbs.QPTypeUD {
		return 40
	}
	return 0
}

// Recv posts a receive of n bytes at an offset of side i's memory, and notes what it owes.
// The header of a datagram comes before.
func (p *Pair) Recv(i, at, n int, want verbs.WC) {
	p.T.Helper()
	p.Next++
	s := &p.Side[i]
	at, n = at-p.grh(), n+p.grh()
	wr := verbs.RecvWR{WRID: p.Next}
	switch {
	case n > 300 && p.Next%3 == 0 && p.Pieces:
		wr.SGL = []verbs.SGE{s.SGE(at, 100), s.SGE(at+100, 7), s.SGE(at+107, n-107)}
	case n > 300 && p.Next%3 == 1 && p.Pieces:
		wr.SGL = []verbs.SGE{s.SGE(at, 45), s.SGE(at+45, n-45)}
	case n > 0:
		wr.SGL = []verbs.SGE{s.SGE(at, n)}
	}
	post := s.QP.PostRecv
	if s.SRQ != nil {
		post = s.SRQ.PostRecv
	}
	if k, err := post([]verbs.RecvWR{wr}); k != 1 || err != nil {
		p.T.Fatal(k, err)
	}
	want.WRID, want.QPN = p.Next, s.Hear.Num()
	if p.Type == verbs.QPTypeUD && want.Status == verbs.StatusSuccess {
		want.ByteLen += uint32(p.grh())
		want.SrcQP = p.Side[1-i].QP.Num()
	}
	if p.Expect != nil {
		p.Expect(p, nil, &want)
	}
	s.Want = append(s.Want, want)
}

var completes = map[verbs.Opcode]verbs.WCOpcode{
	verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend, verbs.OpSendWithInv: verbs.WCSend,
	verbs.OpRDMAWrite: verbs.WCRDMAWrite, verbs.OpRDMAWriteImm: verbs.WCRDMAWrite,
	verbs.OpRDMARead: verbs.WCRDMARead, verbs.OpReadWithInv: verbs.WCRDMARead,
	verbs.OpCompareSwap: verbs.WCCompareSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
	verbs.OpLocalInv: verbs.WCLocalInv, verbs.OpBindMW: verbs.WCBindMW,
}

// Send posts sends of side i, and notes what those that are signaled owe.
func (p *Pair) Send(i int, wrs ...verbs.SendWR) {
	p.T.Helper()
	s := &p.Side[i]
	for j := range wrs {
		p.Next++
		wr := &wrs[j]
		wr.WRID = p.Next
		if p.AH != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.AH, p.Side[1-i].QP.Num(), 0x11111111
		}
		if p.XRCD != nil {
			wr.SRQN = p.Side[1-i].SRQ.Num()
		}
		if wr.Flags&verbs.SendSignaled != 0 || p.SignalAll {
			p.Owe(i, wr)
		}
	}
	if n, err := s.QP.PostSend(wrs); n != len(wrs) || err != nil {
		p.T.Fatal(n, err)
	}
}

// Owe notes the completion of a send.
func (p *Pair) Owe(i int, wr *verbs.SendWR) {
	s := &p.Side[i]
	want := verbs.WC{WRID: wr.WRID, QPN: s.QP.Num(), Opcode: completes[wr.Opcode], ByteLen: uint32(len(wr.Inline))}
	for _, g := range wr.SGL {
		want.ByteLen += g.Length
	}
	if p.Expect != nil {
		p.Expect(p, wr, &want)
	}
	s.Want = append(s.Want, want)
}

// Reap polls both CQs for what is owed, in order of each queue.
func (p *Pair) Reap() {
	p.T.Helper()
	for i := range p.Side {
		s := &p.Side[i]
		wcs := make([]verbs.WC, 4*p.CQE)
		n := copy(wcs, s.Early)
		s.Early = nil
		more, err := s.CQ.Poll(wcs[n:])
		n += more
		if err != nil || n != len(s.Want) {
			p.T.Fatalf("side %d: %d completions of %d, %v\n%+v\nwant %+v", i, n, len(s.Want), err, wcs[:n], s.Want)
		}
		for _, wc := range wcs[:n] {
			if !owed(&s.Want, wc) {
				p.T.Fatalf("side %d: %+v, want %+v", i, wc, s.Want)
			}
		}
	}
}

// owed takes a completion off the list: the oldest of sends or of receives.
func owed(want *[]verbs.WC, wc verbs.WC) bool {
	for i, w := range *want {
		if w.Opcode&verbs.WCRecv == wc.Opcode&verbs.WCRecv {
			*want = append((*want)[:i:i], (*want)[i+1:]...)
			return w == wc
		}
	}
	return false
}

// Same compares memory of both sides.
func (p *Pair) Same(what string, got, want []byte) {
	p.T.Helper()
	if !bytes.Equal(got, want) {
		p.T.Fatalf("%s: %d bytes differ", what, len(want))
	}
}

// Event reads an event of side i's CQ, which must have been raised.
func (p *Pair) Event(i int) {
	p.T.Helper()
	p.Side[i].Events++
	p.NoEvent(i)
	if cq, err := p.Ch.Get(context.Background()); cq != p.Side[i].CQ || err != nil {
		p.T.Fatal(cq, err)
	}
}

// NoEvent fails the test if other events of side i were raised than those that were read.
func (p *Pair) NoEvent(i int) {
	p.T.Helper()
	if n := p.K.CQs()[i].Events(); n != p.Side[i].Events {
		p.T.Fatalf("%d events of side %d, want %d", n, i, p.Side[i].Events)
	}
}

// Arm asks for an event of side i.
func (p *Pair) Arm(i int, solicited bool) {
	p.T.Helper()
	if err := p.Side[i].CQ.Arm(solicited); err != nil {
		p.T.Fatal(err)
	}
}
