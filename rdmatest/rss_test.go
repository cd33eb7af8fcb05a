package rdmatest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// hashKey is the key of Microsoft's examples of RSS.
var hashKey = []byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// spread is a QP that deals frames out to WQs.
type spread struct {
	*node
	wqs []*uverbs.WQ
	rss *uverbs.QP
}

func newSpread(t *testing.T, d *rdmatest.Device, wqs int, fields rss.HashFields) *spread {
	t.Helper()
	s := &spread{node: newNode(t, d, verbs.QPTypeRawPacket, all)}
	for range wqs {
		w := closed(t, must(s.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 4, MaxSGE: 2, CQ: s.cq}))(t))
		s.state(w, rss.WQStateReady)
		s.wqs = append(s.wqs, w)
	}
	table := closed(t, must(s.dev.CreateRWQIndTable(s.wqs))(t))
	s.rss = closed(t, must(s.pd.CreateRSSQP(&uverbs.RSSOptions{Table: table,
		Hash: rss.Hash{Function: rss.Toeplitz, Key: hashKey, Fields: fields}}))(t))
	closed(t, must(s.rss.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x800)}}))(t))
	return s
}

func (s *spread) state(w *uverbs.WQ, to rss.WQState) {
	s.t.Helper()
	if err := w.Modify(&rss.WQAttr{State: to}, rss.WQAttrState); err != nil {
		s.t.Fatal(err)
	}
}

func (s *spread) receiveAt(w *uverbs.WQ, id uint64) {
	s.t.Helper()
	if _, err := w.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{s.mr.SGE(0, recvSize)}}}); err != nil {
		s.t.Fatal(err)
	}
}

// from is a frame of other addresses and ports.
func from(src, dst [4]byte, srcPort, dstPort uint16) []byte {
	b := frameOf(false)
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	binary.BigEndian.PutUint16(b[34:], srcPort)
	binary.BigEndian.PutUint16(b[36:], dstPort)
	return b
}

// RSS deals frames out as Microsoft's verification suite says: of the hash, the low bits are
// the place in the table.
func TestRSS(t *testing.T) {
	const addresses = rss.SrcIPv4 | rss.DstIPv4
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	for _, c := range []struct {
		fields rss.HashFields
		frame  []byte
		hash   uint32
	}{
		{addresses, from([4]byte{66, 9, 149, 187}, [4]byte{161, 142, 100, 80}, 2794, 1766), 0x323e8fc2},
		{addresses, from([4]byte{199, 92, 111, 2}, [4]byte{65, 69, 140, 83}, 14230, 4739), 0xd718262a},
		{addresses | rss.SrcPortUDP | rss.DstPortUDP, from([4]byte{66, 9, 149, 187}, [4]byte{161, 142, 100, 80}, 2794, 1766), 0x51ccc178},
		{addresses | rss.SrcPortUDP | rss.DstPortUDP, from([4]byte{199, 92, 111, 2}, [4]byte{65, 69, 140, 83}, 14230, 4739), 0xc626b0ea},
	} {
		const wqs = 8
		s := newSpread(t, f.Host(1).Device(0), wqs, c.fields)
		for i, w := range s.wqs {
			s.receiveAt(w, uint64(i))
		}
		a.send(c.frame, 0)
		wc := s.next()
		if want := s.wqs[c.hash%wqs]; wc.Err() != nil || wc.WRID != uint64(c.hash%wqs) || wc.QPN != want.Num() || !bytes.Equal(s.mr.Bytes()[:frameSize], c.frame) {
			t.Errorf("%#x: %+v, want WQ %d", c.hash, wc, c.hash%wqs)
		}
		if _, err := s.rss.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, verbs.ErrNotSupported) {
			t.Error(err)
		}
	}
}

// A WQ begins anew in RESET, and loses its completions; in ERR its receives are flushed.
func TestWQStates(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	s := newSpread(t, f.Host(1).Device(0), 1, rss.SrcIPv4)
	w := s.wqs[0]
	s.receiveAt(w, 1)
	s.receiveAt(w, 2)
	a.send(frameOf(false), 0)
	s.state(w, rss.WQStateReset)
	if _, err := w.PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("a WQ takes a receive in RESET")
	}
	s.state(w, rss.WQStateReady)
	a.send(frameOf(false), 0) // nobody waits
	s.receiveAt(w, 3)
	a.send(frameOf(false), 0)
	if wc := s.next(); wc.WRID != 3 || wc.Err() != nil {
		t.Errorf("%+v", wc)
	}
	s.receiveAt(w, 4)
	s.state(w, rss.WQStateErr)
	if wc := s.next(); wc.WRID != 4 || !errors.Is(wc.Err(), verbs.StatusWRFlushErr) {
		t.Errorf("%+v", wc)
	}
	if err := w.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err == nil {
		t.Error("a WQ goes from ERR to RDY")
	}
}
