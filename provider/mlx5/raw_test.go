package mlx5

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// rawWorld is a world with a raw packet QP. Receives that are posted early count from RTR on,
// which the model watches.
func rawWorld(t *testing.T, options fakemlx5.Options) *world {
	t.Helper()
	return newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
		*fakemlx5.OptionsOf(k), o.Type, o.Cap.MaxInline = options, verbs.QPTypeRawPacket, 140
	})
}

// read is a frame as the device puts it together.
func (w *world) read(t *testing.T, s *fakeverbs.Work) []byte {
	t.Helper()
	b := append(bytes.Clone(s.Front), s.Inline...)
	for _, e := range s.SGL {
		part := make([]byte, e.Length)
		if err := w.k.User.Read(e.Addr, part); err != nil || e.LKey != w.mr.LKey() {
			t.Error(e, err)
		}
		b = append(b, part...)
	}
	return b
}

// A frame leaves whole, however it is cut into SGEs, and whether the device wants its start in
// the request or not.
func TestSendFrame(t *testing.T) {
	const length = 100
	for name, options := range map[string]fakemlx5.Options{
		"no header": {}, "header": {InlineHeaders: true}, "header, static UARs": {InlineHeaders: true, StaticUARs: true, CQEVersion0: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rawWorld(t, options)
			copy(w.mr.Bytes(), data(length))
			wrs := []verbs.SendWR{{Inline: data(length)}, {Inline: data(ethernetHeader)}, {Inline: data(ethernetHeader + 1), Flags: verbs.SendIPCsum}}
			for _, cuts := range [][]int{{}, {1}, {14, 14}, {17}, {18}, {19}, {5, 10, 18, 60}} {
				wr, from := verbs.SendWR{Flags: verbs.SendIPCsum | verbs.SendSolicited}, 0
				for _, to := range append(cuts, length) {
					wr.SGL = append(wr.SGL, w.mr.SGE(from, to-from))
					from = to
				}
				wrs = append(wrs, wr)
			}
			for i, wr := range wrs {
				wr.WRID, wr.Opcode, wr.Flags = uint64(i), verbs.OpSend, wr.Flags|verbs.SendSignaled
				w.post(t, wr)
				got := w.take(t)
				want := wr.Inline
				if want == nil {
					want = data(length)
				}
				if b := w.read(t, got); !bytes.Equal(b, want) || got.Opcode != abi.IB_UVERBS_WR_SEND || got.Flags&abi.IB_SEND_IP_CSUM != uint32(wr.Flags&verbs.SendIPCsum) {
					t.Errorf("%+v: %x, want %x", got, b, want)
				}
				w.kqp.Sent(got, abi.IB_WC_SUCCESS)
				if wc := w.one(t); wc.WRID != wr.WRID || wc.Opcode != verbs.WCSend || wc.Err() != nil {
					t.Errorf("%+v", wc)
				}
			}
		})
	}
}

// Frames that no device would send are refused.
func TestRefusesFrame(t *testing.T) {
	w := rawWorld(t, fakemlx5.Options{InlineHeaders: true})
	short := ethernetHeader - 1
	for name, c := range map[string]struct {
		wr   verbs.SendWR
		want error
	}{
		"too short":            {verbs.SendWR{SGL: []verbs.SGE{w.mr.SGE(0, short)}}, verbs.ErrInvalidWR},
		"too short inline":     {verbs.SendWR{Inline: data(short)}, verbs.ErrInvalidWR},
		"empty":                {verbs.SendWR{}, verbs.ErrInvalidWR},
		"no such key":          {verbs.SendWR{SGL: []verbs.SGE{{Addr: w.mr.Addr(), Length: 64, LKey: 1}}}, verbs.ErrInvalidWR},
		"behind the region":    {verbs.SendWR{SGL: []verbs.SGE{{Addr: w.mr.Addr() + 4090, Length: 64, LKey: w.mr.LKey()}}}, verbs.ErrInvalidWR},
		"immediate data":       {verbs.SendWR{Opcode: verbs.OpSendImm, Inline: data(64)}, verbs.ErrNotSupported},
		"an unknown flag":      {verbs.SendWR{Inline: data(64), Flags: 1 << 5}, verbs.ErrInvalidWR},
		"a write":              {verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: data(64)}, verbs.ErrNotSupported},
		"both SGL and Inline":  {verbs.SendWR{Inline: data(64), SGL: []verbs.SGE{w.mr.SGE(0, 64)}}, verbs.ErrInvalidWR},
		"too much data inline": {verbs.SendWR{Inline: data(int(w.qp.Cap().MaxInline) + 1)}, verbs.ErrInvalidWR},
	} {
		if name != "a write" {
			c.wr.Opcode = max(c.wr.Opcode, verbs.OpSend)
		}
		if n, err := w.qp.PostSend([]verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	rc := newWorld(t, nil)
	if _, err := rc.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendIPCsum}}); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error("checksums of an RC QP:", err)
	}
}

// A device without checksums refuses to fill them in.
func TestNoChecksums(t *testing.T) {
	w := rawWorld(t, fakemlx5.Options{NoChecksums: true})
	if _, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendIPCsum, Inline: data(64)}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// A completion reports which checksums are right: of IPv4, both.
func TestReceiveFrame(t *testing.T) {
	w := rawWorld(t, fakemlx5.Options{})
	for i, c := range []struct {
		checks [2]byte
		want   verbs.WCFlags
	}{
		{[2]byte{0x06, 2 << 2}, verbs.WCIPCsumOK}, {[2]byte{0x07, 2<<2 | 3<<4}, verbs.WCIPCsumOK},
		{[2]byte{0x02, 2 << 2}, 0}, {[2]byte{0x04, 2 << 2}, 0}, {[2]byte{0x06, 1 << 2}, 0}, {},
	} {
		w.postRecv(t, verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{w.mr.SGE(0, 2048)}})
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 2, Counter: uint16(i), QPN: w.qp.Num(), Queue: 0, Bytes: 64, Checks: c.checks})
		if wc := w.one(t); wc.WRID != uint64(i) || wc.ByteLen != 64 || wc.Flags != c.want || wc.SrcQP != 0 {
			t.Errorf("%x: %+v", c.checks, wc)
		}
	}
}

// Receives that are posted in INIT are not the device's before RTR.
func TestFrameBeforeRTR(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverMLX5))
	w := &world{k: k}
	w.dev = must[*uverbs.Device](t)(openOn(info, k))
	defer w.dev.Close()
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(7, nil))
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxRecvWR: 4, MaxRecvSGE: 1}}))
	w.kqp = k.QueuePairs()[0]
	if err := w.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		w.postRecv(t, verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{{Addr: 4096, Length: 64, LKey: 1}}})
		_, ok := w.kqp.TakeRecv()
		if ok != (i >= 2) {
			t.Errorf("receive %d, in %d: %v", i, w.kqp.State(), ok)
		}
		if i == 1 {
			if err := w.qp.Connect(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, v := range k.Violations() {
		t.Error("violation:", v)
	}
	for _, c := range []interface{ Close() error }{w.qp, w.cq, w.pd} {
		if err := c.Close(); err != nil {
			t.Error(fmt.Sprint(c), err)
		}
	}
}
