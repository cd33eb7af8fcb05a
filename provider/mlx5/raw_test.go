package mlx5

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
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
			for i := range 2 * len(wrs) {
				wr, post := wrs[i/2], w.post
				if wr.WRID, wr.Opcode, wr.Flags = uint64(i), verbs.OpSend, wr.Flags|verbs.SendSignaled; i%2 == 1 {
					if !canBuild(&wr) {
						continue
					}
					post = w.build
				}
				post(t, wr)
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

// TestBuiltFrames builds frames, and posts the same ones to another QP: both write the same bytes into
// the queue, note the same requests, and refuse the same ones.
func TestBuiltFrames(t *testing.T) {
	const most = 140
	for _, checksums := range []bool{true, false} {
		var rigs [2]*rig
		for i := range rigs {
			r := newRig(t)
			r.typ, r.maxInline, r.plainFrames, r.frameFlags = verbs.QPTypeRawPacket, most, true, verbs.SendSignaled|verbs.SendSolicited
			r.ctx.limits.EthMinInline = abi.MLX5_USER_INLINE_MODE_NONE
			if r.ctx.checksums = checksums; checksums {
				r.frameFlags |= verbs.SendIPCsum
			}
			clear(r.plain[:]) // of an RC QP
			r.preparePlain()
			rigs[i] = r
		}
		posted, built := rigs[0], rigs[1].frames
		var wrs []verbs.SendWR
		for _, flags := range []verbs.SendFlags{0, verbs.SendSignaled, verbs.SendSolicited, verbs.SendIPCsum, verbs.SendFence | verbs.SendSignaled, allFlags, rawFlags, 1 << 7} {
			for _, n := range []int{0, 1, 31, 32, 33, 64, 65, most, most + 1} {
				wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpSend, Flags: flags, Inline: data(n)})
			}
			for _, n := range []uint32{0, 1, maxDataLength, maxDataLength + 1, verbs.BadLength} {
				wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpSend, Flags: flags, SGL: []verbs.SGE{{Addr: 1 << 40, Length: n, LKey: 7}}})
			}
			wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: flags, SGL: []verbs.SGE{{Addr: 1, Length: 64, LKey: 7}}})
		}
		full := 0
		for round := range 128 {
			for i := range wrs {
				wr := wrs[(i+round)%len(wrs)] // so that requests of each size reach the end of the queue
				wr.WRID = uint64(posted.sq.pi)
				n, err := posted.PostSend([]verbs.SendWR{wr})
				built.StartSends(nil)
				switch {
				case wr.Opcode == verbs.OpRDMAWrite:
					built.BuildWrite(wr.WRID, wr.Flags, wr.SGL[0], 0, 0)
				case wr.Inline != nil:
					built.BuildSendInline(wr.WRID, wr.Flags, wr.Inline)
				default:
					built.BuildSend(wr.WRID, wr.Flags, wr.SGL[0])
				}
				k, buildErr := built.RingSends()
				if n != k || fmt.Sprint(err) != fmt.Sprint(buildErr) || posted.sq.pi != built.sq.pi || !bytes.Equal(posted.sq.memory, built.sq.memory) || !slices.Equal(posted.sq.sent, built.sq.sent) {
					t.Fatalf("%d bytes inline, %v, flags %#x: posted %d, %v, built %d, %v; the queues differ", len(wr.Inline), wr.SGL, wr.Flags, n, err, k, buildErr)
				}
				if errors.Is(err, verbs.ErrQueueFull) {
					full++
					for _, r := range rigs {
						r.sq.completed.Store(r.sq.produced.Load())
					}
				}
			}
		}
		if full == 0 || posted.sq.pi < 4*posted.sq.blocks {
			t.Errorf("%d requests in %d blocks, %d of them refused for lack of room", posted.sq.produced.Load(), posted.sq.pi, full)
		}
	}
}

// A move to RESET removes a QP's completions from its CQ, whether the device wants the start of frames in
// the request or not.
func TestFrameReset(t *testing.T) {
	for _, options := range []fakemlx5.Options{{}, {InlineHeaders: true}} {
		w := rawWorld(t, options)
		w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data(64)})
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
		if wcs := w.poll(t); len(wcs) > 0 {
			t.Errorf("%+v: %+v", options, wcs)
		}
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
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 2, Counter: uint16(i), QPN: w.qp.QPN(), Queue: 0, Bytes: 64, Checks: c.checks})
		if wc := w.one(t); wc.WRID != uint64(i) || wc.ByteLen != 64 || wc.Flags != c.want || wc.SrcQPN != 0 {
			t.Errorf("%x: %+v", c.checks, wc)
		}
	}
}

// Receives that are posted in INIT are not the device's before RTR.
func TestFrameBeforeRTR(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverMLX5))
	w := &world{k: k}
	w.dev = providertest.Must[*uverbs.Device](t)(providertest.OpenOn(info, k))
	defer w.dev.Close()
	w.pd = providertest.Must[*uverbs.PD](t)(w.dev.AllocPD())
	w.cq = providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(7, nil))
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: w.cq, RecvCQ: w.cq,
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

// tcpHeaders are the headers of a TCP segment over IPv4, of 54 bytes and options.
func tcpHeaders(options int) []byte {
	b := data(54 + options)
	b[12], b[13], b[14], b[23], b[46] = 8, 0, 0x45, 6, byte(20+options)/4<<4
	return b
}

// tagged is a frame with a VLAN tag.
func tagged(frame []byte, tag uint16) []byte {
	return slices.Concat(frame[:12], []byte{0x81, 0, byte(tag >> 8), byte(tag)}, frame[12:])
}

// A TSO leaves with its headers in the request, wherever in the queue it begins.
func TestSendTSO(t *testing.T) {
	const most, payload, tag = 70, 3000, 0xe123
	for name, options := range map[string]fakemlx5.Options{"no header": {}, "header": {InlineHeaders: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
				*fakemlx5.OptionsOf(k), o.Type, o.MaxTSOHeader = options, verbs.QPTypeRawPacket, most
			})
			if !w.dev.Supports(verbs.QPTypeRawPacket, verbs.OpTSO) || w.dev.Supports(verbs.QPTypeRC, verbs.OpTSO) || w.dev.Supports(verbs.QPTypeUD, verbs.OpTSO) {
				t.Error("Supports")
			}
			copy(w.mr.Bytes(), data(payload))
			for i := range 64 {
				wr := verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpTSO, Flags: verbs.SendSignaled, MSS: uint16(1400 + i),
					Inline: tcpHeaders(i % 5 * 4), SGL: []verbs.SGE{w.mr.SGE(0, 1000), w.mr.SGE(1000, payload-1000)}}
				want := wr.Inline
				if i%3 == 1 {
					wr.VLAN, want = tag, nil
					if len(wr.Inline)+4 > most {
						wr.Inline = wr.Inline[:most-4]
					}
					want = tagged(wr.Inline, tag)
				}
				if i%2 == 1 {
					wr.Flags |= verbs.SendIPCsum
				}
				w.post(t, wr)
				got := w.take(t)
				if got.Opcode != abi.IB_UVERBS_WR_TSO || got.MSS != wr.MSS || !bytes.Equal(got.Front, want) || got.Flags&abi.IB_SEND_IP_CSUM != uint32(wr.Flags&verbs.SendIPCsum) {
					t.Errorf("%d: %+v, want %x", i, got, want)
				}
				if b := w.read(t, got); !bytes.Equal(b[len(want):], data(payload)) {
					t.Errorf("%d: %x", i, b)
				}
				w.kqp.Sent(got, abi.IB_WC_SUCCESS)
				if wc := w.one(t); wc.WRID != wr.WRID || wc.Opcode != verbs.WCTSO || wc.Err() != nil {
					t.Errorf("%+v", wc)
				}
			}
		})
	}
}

// A TSO that no device would carry out is refused, and so is the QP where there is none.
func TestRefusesTSO(t *testing.T) {
	w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.Type, o.MaxTSOHeader = verbs.QPTypeRawPacket, 70 })
	payload := []verbs.SGE{w.mr.SGE(0, 4000)}
	for name, wr := range map[string]verbs.SendWR{
		"no MSS":           {Inline: tcpHeaders(0), SGL: payload},
		"no headers":       {MSS: 1, SGL: payload},
		"short headers":    {MSS: 1, Inline: data(13), SGL: payload},
		"long headers":     {MSS: 1, Inline: data(71), SGL: payload},
		"long with a tag":  {MSS: 1, Inline: data(67), SGL: payload, VLAN: 1},
		"no payload":       {MSS: 1, Inline: tcpHeaders(0)},
		"too much payload": {MSS: 1, Inline: tcpHeaders(0), SGL: []verbs.SGE{{Addr: 1, Length: 1<<18 + 1, LKey: 1}}},
	} {
		wr.Opcode = verbs.OpTSO
		if n, err := w.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	without := rawWorld(t, fakemlx5.Options{})
	if _, err := without.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpTSO, MSS: 1, Inline: tcpHeaders(0), SGL: payload}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error("a QP without MaxTSOHeader:", err)
	}
	old := rawWorld(t, fakemlx5.Options{NoTSO: true})
	opts := &uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: old.cq, RecvCQ: old.cq, MaxTSOHeader: 54, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}
	if _, err := old.pd.CreateQP(opts); !errors.Is(err, verbs.ErrNotSupported) || old.dev.Supports(verbs.QPTypeRawPacket, verbs.OpTSO) {
		t.Error("a device without TSO:", err)
	}
	opts.MaxTSOHeader, opts.SendCQ, opts.RecvCQ, opts.Cap.MaxSendWR = 128, w.cq, w.cq, 8
	roomy := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts)) // requests of 48 + 128 + 16 bytes, in a queue of 2 KiB
	if got, want := roomy.Cap(), (verbs.QPCap{MaxSendWR: 10, MaxSendSGE: 1, MaxInline: 140}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := roomy.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: w.cq, RecvCQ: w.cq, MaxTSOHeader: 2000,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error("headers that no request has room for:", err)
	}
}

// A frame gets its VLAN tag, whether the device wants its start in the request or not.
func TestSendVLAN(t *testing.T) {
	const length, tag = 100, 0xa5c3
	for name, options := range map[string]fakemlx5.Options{"no header": {}, "header": {InlineHeaders: true}} {
		t.Run(name, func(t *testing.T) {
			w := rawWorld(t, options)
			copy(w.mr.Bytes(), data(length))
			wrs := []verbs.SendWR{{Inline: data(length)}, {Inline: data(14)}}
			for _, to := range []int{1, 12, 13, 14, 15} {
				wrs = append(wrs, verbs.SendWR{SGL: []verbs.SGE{w.mr.SGE(0, to), w.mr.SGE(to, length-to)}})
			}
			for i, wr := range wrs {
				wr.WRID, wr.Opcode, wr.VLAN, wr.Flags = uint64(i), verbs.OpSend, tag, verbs.SendSignaled
				w.post(t, wr)
				got := w.take(t)
				want := data(length)
				if wr.Inline != nil {
					want = wr.Inline
				}
				if b := w.read(t, got); !bytes.Equal(b, tagged(want, tag)) {
					t.Errorf("%d: %x, want %x", i, b, tagged(want, tag))
				}
				w.kqp.Sent(got, abi.IB_WC_SUCCESS)
				w.one(t)
			}
			if _, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, VLAN: 1, Inline: data(13)}}); !errors.Is(err, verbs.ErrInvalidWR) {
				t.Error("a frame without an EtherType:", err)
			}
		})
	}
}

// TestPacketLimits changes each field of the kernel's own attributes of the device.
func TestPacketLimits(t *testing.T) {
	var change func(b []byte)
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.CallOut && c.Call == "QUERY_DEVICE" && change != nil {
				change(c.Bytes)
			}
		}
	})
	const raw = 1 << 8
	want := verbs.DeviceAttr{RSS: verbs.RSSCaps{HashFunctions: 1, HashFields: 0xff}, TSO: verbs.TSOCaps{MaxPayload: 1 << 18, SupportedQPTypes: raw},
		PacketPacing: verbs.PacketPacingCaps{MinRate: 1, MaxRate: 100_000_000, SupportedQPTypes: raw, Burst: true}}
	for name, c := range map[string]struct {
		at  int
		set func(*verbs.DeviceAttr)
	}{
		"":               {-1, func(*verbs.DeviceAttr) {}},
		"max_tso":        {8, func(a *verbs.DeviceAttr) { a.TSO.MaxPayload ^= 1 }},
		"tso qpts":       {12, func(a *verbs.DeviceAttr) { a.TSO.SupportedQPTypes ^= 1 }},
		"hash fields":    {16, func(a *verbs.DeviceAttr) { a.RSS.HashFields ^= 1 }},
		"hash function":  {24, func(a *verbs.DeviceAttr) { a.RSS.HashFunctions ^= 1 }},
		"rate_limit_min": {40, func(a *verbs.DeviceAttr) { a.PacketPacing.MinRate ^= 1 }},
		"rate_limit_max": {44, func(a *verbs.DeviceAttr) { a.PacketPacing.MaxRate ^= 1 }},
		"pacing qpts":    {48, func(a *verbs.DeviceAttr) { a.PacketPacing.SupportedQPTypes ^= 1 }},
		"cap_flags":      {52, func(a *verbs.DeviceAttr) { a.PacketPacing.Burst = false }},
	} {
		change = func(b []byte) {
			if c.at >= 0 {
				b[c.at] ^= 1
			}
		}
		want := want
		c.set(&want)
		if got := providertest.Must[*verbs.DeviceAttr](t)(w.dev.QueryDevice()); got.TSO != want.TSO || got.PacketPacing != want.PacketPacing ||
			got.RSS.HashFunctions != want.RSS.HashFunctions || got.RSS.HashFields != want.RSS.HashFields {
			t.Errorf("%s: %+v, %+v, %+v", name, got.TSO, got.PacketPacing, got.RSS)
		}
	}
}

// packetWorld is a world with a raw packet QP whose completions have all fields of packets.
func packetWorld(t *testing.T, ext verbs.WCExtMask, options fakemlx5.Options) *world {
	t.Helper()
	return makeWorld(t, uverbs.CQOptions{Ext: ext}, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
		*fakemlx5.OptionsOf(k), o.Type = options, verbs.QPTypeRawPacket
	})
}

// Extended completions have each field of a packet, if the CQ was created with it.
func TestPacketFields(t *testing.T) {
	const tag, vlan, all = 0xabcdef, 0xe123, verbs.WCExtFlowTag | verbs.WCExtVLAN | verbs.WCExtChecksum
	for _, ext := range []verbs.WCExtMask{verbs.WCExtFlowTag, verbs.WCExtVLAN, verbs.WCExtChecksum, all} {
		w := packetWorld(t, ext, fakemlx5.Options{})
		for i, c := range []struct {
			checks [2]byte
			want   verbs.WCExtFlags
			vlan   uint16
		}{
			{[2]byte{}, 0, 0},
			{[2]byte{0, 1}, 0, vlan},
			{[2]byte{0x01, 0x80}, 0, 0}, // layer 2, and a bit without a meaning
			{[2]byte{0x02, 2 << 2}, verbs.WCExtL3OK | verbs.WCExtIPv4, 0},
			{[2]byte{0x04, 1<<2 | 2<<4}, verbs.WCExtL4OK | verbs.WCExtIPv6 | verbs.WCExtUDP, 0},
			{[2]byte{0x06, 1<<2 | 1<<4}, verbs.WCExtChecksumOK | verbs.WCExtIPv6 | verbs.WCExtTCP, 0},
			{[2]byte{0x06, 2<<2 | 3<<4}, verbs.WCExtChecksumOK | verbs.WCExtIPv4 | verbs.WCExtTCP, 0},
			{[2]byte{0x07, 2<<2 | 4<<4 | 1}, verbs.WCExtChecksumOK | verbs.WCExtIPv4 | verbs.WCExtTCP, vlan},
			{[2]byte{0x00, 3<<2 | 5<<4}, 0, 0},
		} {
			w.postRecv(t, verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{w.mr.SGE(0, 2048)}})
			fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 2, Counter: uint16(i), QPN: tag + uint32(i), Bytes: 64, Checks: c.checks, VLAN: vlan})
			wcs, got := make([]verbs.WC, 2), []verbs.WCExt{{Timestamp: 9, VLAN: 9}, {}}
			if n, err := w.cq.PollExt(wcs, got); n != 1 || err != nil || wcs[0].WRID != uint64(i) || wcs[0].QPN != w.qp.QPN() {
				t.Fatal(n, err, wcs)
			}
			want := verbs.WCExt{}
			if ext&verbs.WCExtFlowTag != 0 {
				want.FlowTag = tag + uint32(i)
			}
			if ext&verbs.WCExtVLAN != 0 {
				want.VLAN = c.vlan
			}
			if ext&verbs.WCExtChecksum != 0 {
				want.Flags = c.want
			}
			if got[0] != want {
				t.Errorf("%#x, %x: %+v, want %+v", ext, c.checks, got[0], want)
			}
		}
		w.postRecv(t, verbs.RecvWR{})
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 14, Counter: 9, QPN: tag, Syndrome: 1})
		got := make([]verbs.WCExt, 1)
		if n, err := w.cq.PollExt(make([]verbs.WC, 1), got); n != 1 || err != nil || got[0] != (verbs.WCExt{}) {
			t.Error("of an error:", n, err, got)
		}
		w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{w.mr.SGE(0, 64)}})
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 0, QPN: w.qp.QPN(), Checks: [2]byte{0x06, 0xff}, VLAN: vlan})
		if n, err := w.cq.PollExt(make([]verbs.WC, 1), got); n != 1 || err != nil || got[0] != (verbs.WCExt{}) {
			t.Error("of a send:", n, err, got)
		}
	}
	// Of other completions the fields are 0, whatever the device has there.
	w := makeWorld(t, uverbs.CQOptions{Ext: all}, nil)
	w.postRecv(t, verbs.RecvWR{})
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	for _, c := range []fakemlx5.CQE{{Opcode: 2, QPN: w.qp.QPN()}, {Opcode: 0, QPN: w.qp.QPN()}} {
		c.Checks, c.VLAN = [2]byte{0x06, 0xff}, vlan
		fakemlx5.CQOf(w.kcq).Complete(c)
	}
	got := make([]verbs.WCExt, 2)
	if n, err := w.cq.PollExt(make([]verbs.WC, 2), got); n != 2 || err != nil || got[0] != (verbs.WCExt{}) || got[1] != (verbs.WCExt{}) {
		t.Error("of an RC QP:", n, err, got)
	}
	old := rawWorld(t, fakemlx5.Options{CQEVersion0: true})
	for ext, refused := range map[verbs.WCExtMask]bool{verbs.WCExtFlowTag: true, verbs.WCExtVLAN | verbs.WCExtChecksum: false} {
		cq, err := old.dev.CreateCQ(1, &uverbs.CQOptions{Ext: ext})
		if errors.Is(err, verbs.ErrNotSupported) != refused || err == nil && cq.Close() != nil {
			t.Errorf("completions of version 0 with %#x: %v", ext, err)
		}
	}
}

// The first flow rule that uses counters says what they count. The last one's end makes the kernel forget
// it.
func TestFlowCounters(t *testing.T) {
	w := rawWorld(t, fakemlx5.Options{})
	counters := providertest.Must[*uverbs.Counters](t)(w.dev.CreateCounters())
	opts := &uverbs.FlowOptions{Specs: []flow.Spec{&flow.Eth{}, counters}}
	if _, err := w.qp.CreateFlow(opts); !errors.Is(err, syscall.EINVAL) {
		t.Error("counters of nothing:", err)
	}
	if err := errors.Join(counters.Count(flow.CounterBytes, 2), counters.Count(flow.CounterPackets, 0), counters.Count(flow.CounterBytes, 1)); err != nil {
		t.Fatal(err)
	}
	want := []fakeverbs.CounterKind{{Kind: 1, Index: 2}, {Kind: 0, Index: 0}, {Kind: 1, Index: 1}}
	for range 2 {
		a, b := providertest.Must[*uverbs.Flow](t)(w.qp.CreateFlow(opts)), providertest.Must[*uverbs.Flow](t)(w.qp.CreateFlow(opts))
		if got := w.k.AllCounters()[0].Kinds; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if err := counters.Count(flow.CounterBytes, 0); !errors.Is(err, verbs.ErrInUse) {
			t.Error(err)
		}
		if err := counters.Read(make([]uint64, 2), false); !errors.Is(err, syscall.EINVAL) {
			t.Error("room for two of three:", err)
		}
		if err := errors.Join(counters.Read(make([]uint64, 5), false), a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if got := w.k.AllCounters()[0].Kinds; got != nil {
			t.Error(got)
		}
	}
	if _, err := w.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{flow.Tag(1 << 24)}}); !errors.Is(err, syscall.EINVAL) {
		t.Error("a flow tag of 25 bits:", err)
	}
	if err := counters.Close(); err != nil {
		t.Error(err)
	}
}

// A rate limit reaches the device with its burst and its usual size of packets, each in its place.
func TestPacing(t *testing.T) {
	w := rawWorld(t, fakemlx5.Options{})
	set := func(rate, burst uint32, packet uint16) error {
		return w.qp.Modify(&verbs.QPAttr{RateLimit: rate, MaxBurst: burst, TypicalPacket: packet}, verbs.QPAttrRateLimit)
	}
	for _, want := range []fakemlx5.Pacing{{Rate: 1000, MaxBurst: 3000, TypicalPacket: 1500}, {Rate: 1000, MaxBurst: 2}, {Rate: 7, TypicalPacket: 64}, {Rate: 9}, {}} {
		if err := set(want.Rate, want.MaxBurst, want.TypicalPacket); err != nil {
			t.Error(err)
		}
		if got := fakemlx5.QPOf(w.kqp).Pacing; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, c := range []struct {
		rate, burst uint32
		packet      uint16
	}{{0, 1, 0}, {0, 0, 1}, {100_000_001, 0, 0}} {
		if err := set(c.rate, c.burst, c.packet); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	w = rawWorld(t, fakemlx5.Options{NoBursts: true})
	if err := errors.Join(set(5, 0, 0)); err != nil {
		t.Error(err)
	}
	for _, err := range []error{set(5, 1, 0), set(5, 0, 1)} {
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Error(err)
		}
	}
}

// The device offers options of enhanced connection establishment, and agrees to those that it has.
func TestECE(t *testing.T) {
	const trigger, mellanox = 1 << 28, 0x15b3
	var asked int
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.CallIn && c.Call == "EX_MODIFY_QP" {
				asked++
			}
		}
	})
	is := func(want uint32) {
		t.Helper()
		if e, err := w.qp.ECE(); err != nil || e != (verbs.ECE{VendorID: mellanox, Options: want}) {
			t.Errorf("%+v, %v, want %#x", e, err, want)
		}
	}
	is(trigger | fakemlx5.ECE)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	is(trigger | fakemlx5.ECE)
	if err := w.qp.SetECE(verbs.ECE{VendorID: mellanox, Options: trigger | 0x81}); err != nil {
		t.Fatal(err)
	}
	is(0)
	if err := w.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	is(trigger | 1)
	if err := w.qp.SetECE(verbs.ECE{VendorID: 1, Options: 1}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if err := w.qp.Init(nil); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	is(trigger | 1)
	old := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).NoECE = true })
	if _, err := old.qp.ECE(); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if err := old.qp.SetECE(verbs.ECE{VendorID: mellanox, Options: 1}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
