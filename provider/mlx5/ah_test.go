package mlx5

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// newUD makes a world whose QP sends datagrams.
func newUD(t *testing.T, device fakemlx5.Options) *world {
	return newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
		*fakemlx5.OptionsOf(k), o.Type = device, verbs.QPTypeUD
	})
}

// TestAddress checks each part of an address at the device. The model compares it with the
// attributes that the kernel got, and with the rules of each kind of port.
func TestAddress(t *testing.T) {
	roce := verbs.AHAttr{Port: 1, Global: true, DGID: verbs.GID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, HopLimit: 0xfe, TrafficClass: 0x6a, SL: 6}
	v2, label, lowLabel, ib, grh := roce, roce, roce, verbs.AHAttr{Port: 1, DLID: 0xabcd, SL: 0xe, SrcPathBits: 0x55}, roce
	v2.SGIDIndex, label.SGIDIndex, label.FlowLabel, lowLabel.SGIDIndex, lowLabel.FlowLabel = 1, 1, 0xfedcb, 1, 1
	for _, a := range []*verbs.AHAttr{&v2, &label, &lowLabel} {
		a.DGID = verbs.GID{10: 0xff, 11: 0xff, 12: 1, 13: 2, 14: 3, 15: 4}
	}
	grh.DLID, grh.FlowLabel = 9, 0x12345
	for name, c := range map[string]struct {
		attr       verbs.AHAttr
		infiniband bool
	}{
		"RoCE v1": {roce, false}, "RoCE v2": {v2, false}, "flow label": {label, false}, "low flow label": {lowLabel, false},
		"InfiniBand": {ib, true}, "InfiniBand with GRH": {grh, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUD(t, fakemlx5.Options{Infiniband: c.infiniband})
			ah := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&c.attr))
			defer ah.Close()
			w.post(t, verbs.SendWR{Opcode: verbs.OpSend, AH: ah, RemoteQPN: 0xff123456, RemoteQKey: 0x80010203, Inline: data(5)})
			s := w.take(t)
			if s.To.QPN != 0x123456 || s.To.QKey != 0x80010203 || s.To.AH == nil {
				t.Fatalf("%+v", s.To)
			}
			a, want := s.To.AH.Attr, c.attr
			got := verbs.AHAttr{Port: int(a.PortNum), Global: a.IsGlobal != 0, DGID: a.Grh.Dgid, FlowLabel: a.Grh.FlowLabel, SGIDIndex: uint32(a.Grh.SgidIndex),
				HopLimit: a.Grh.HopLimit, TrafficClass: a.Grh.TrafficClass, DLID: a.Dlid, SL: a.Sl, SrcPathBits: a.SrcPathBits}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if calls := w.k.Calls("CREATE_AH"); (calls == 0) != c.infiniband {
				t.Errorf("the kernel was asked %d times", calls)
			}
		})
	}
}

// TestRates are the device's numbers for limits of rate.
func TestRates(t *testing.T) {
	for static, want := range map[verbs.Rate]uint32{0: 0, 1: 0, 2: 7, 5: 10, 3: 8, 10: 15, 14: 0, 15: 9, 16: 15, 17: 0, 20: 13, 21: 0, 255: 0} {
		if got := rate(static); got != want {
			t.Errorf("rate %d is %d, want %d", static, got, want)
		}
	}
	w := newUD(t, fakemlx5.Options{Infiniband: true})
	ah := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Port: 1, DLID: 1, StaticRate: 10}))
	defer ah.Close()
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend, AH: ah})
	if s := w.take(t); s.To.AH.Attr.StaticRate != 15 {
		t.Errorf("%+v", s.To.AH.Attr)
	}
}

// TestUDPPort checks that without a flow label the port is one of RoCE's, but not always the same.
func TestUDPPort(t *testing.T) {
	seen := make(map[uint32]bool)
	for range 100 {
		p := udpPort(0)
		if p < 0xc000 || p > 0xffff {
			t.Fatalf("port %#x", p)
		}
		seen[p] = true
	}
	if len(seen) < 2 {
		t.Error("always the same port")
	}
}

// TestDatagramRefused checks that sends without a valid address are refused.
func TestDatagramRefused(t *testing.T) {
	w := newUD(t, fakemlx5.Options{})
	attr := &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID}
	closed := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(attr))
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	ah := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(attr))
	defer ah.Close()
	for name, c := range map[string]struct {
		wr   verbs.SendWR
		want error
	}{
		"no AH":     {verbs.SendWR{Opcode: verbs.OpSend}, verbs.ErrInvalidWR},
		"closed AH": {verbs.SendWR{Opcode: verbs.OpSend, AH: closed}, verbs.ErrInvalidWR},
		"a write":   {verbs.SendWR{Opcode: verbs.OpRDMAWrite, AH: ah}, verbs.ErrNotSupported},
	} {
		if n, err := w.qp.PostSend([]verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// TestAddressRefused has a kernel that does not report the MAC, and a GID that does not
// exist.
func TestAddressRefused(t *testing.T) {
	w := newUD(t, fakemlx5.Options{NoMAC: true})
	attr := &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID}
	if _, err := w.pd.CreateAH(attr); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	w = newUD(t, fakemlx5.Options{})
	attr.SGIDIndex = 9
	if _, err := w.pd.CreateAH(attr); err == nil {
		t.Error("an address from no GID")
	}
}

// TestDatagramReceived checks a completion's fields about the sender. Over RoCE the device puts the kind
// of packet where the SL is on InfiniBand, and the SL is the priority of the VLAN's tag.
func TestDatagramReceived(t *testing.T) {
	for _, infiniband := range []bool{false, true} {
		w := newUD(t, fakemlx5.Options{Infiniband: infiniband})
		w.postRecv(t, verbs.RecvWR{WRID: 3})
		r, _ := w.kqp.TakeRecv()
		r.Packet = fakeverbs.Packet{UDP: true, IPv4: true, Stripped: true, VLAN: 5<<13 | 100}
		w.kqp.Received(r, &abi.IbUverbsWc{ByteLen: 77, SrcQp: 0xabcdef, Sl: 0xd, Slid: 0x1234, DlidPathBits: 0x7f, WcFlags: abi.IB_WC_GRH | abi.IB_WC_WITH_IMM, Ex: be32(0x01020304)}, false)
		want := verbs.WC{WRID: 3, QPN: w.qp.QPN(), Opcode: verbs.WCRecv, ByteLen: 77, SrcQPN: 0xabcdef, SL: 5, Imm: 0x01020304, Flags: verbs.WCGRH | verbs.WCWithImm}
		if infiniband {
			want.SL, want.SLID, want.DLIDPathBits = 0xd, 0x1234, 0x7f
		}
		if wc := w.one(t); wc != want {
			t.Errorf("%+v, want %+v", wc, want)
		}
		if infiniband {
			continue
		}
		w.postRecv(t, verbs.RecvWR{})
		r, _ = w.kqp.TakeRecv()
		r.Packet = fakeverbs.Packet{UDP: true, IPv6: true}
		w.kqp.Received(r, &abi.IbUverbsWc{ByteLen: 77, WcFlags: abi.IB_WC_GRH}, false)
		if wc := w.one(t); wc.SL != 0 {
			t.Errorf("without a tag the SL is %d", wc.SL)
		}
	}
}
