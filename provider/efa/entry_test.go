package efa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

const signaled = verbs.SendSignaled

// TestSends compares the bytes of each form of a send with those of the device's documentation.
func TestSends(t *testing.T) {
	sge := []verbs.SGE{{Addr: 0x1122334455667788, Length: 0x99aabb, LKey: 0xccddee}}
	two := append(sge[:1:1], verbs.SGE{Addr: 1, Length: 2, LKey: 3})
	const to, remote = "a107 00 00 44332211", "bbaa9900 efbeadde 0807060504030201"
	local := "bbaa9900 eeddcc00 8877665544332211"
	for name, c := range map[string]struct {
		wr   verbs.SendWR
		long bool
		want string // id and phase are 0
	}{
		"SEND":           {verbs.SendWR{Opcode: verbs.OpSend, SGL: two}, false, "0000 80 1c 3412 0200 00000000" + to + strings.Repeat("00", 12) + local + "02000000 03000000 0100000000000000"},
		"SEND empty":     {verbs.SendWR{Opcode: verbs.OpSend}, false, "0000 80 1c 3412 0000 00000000" + to},
		"SEND_IMM":       {verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 0x01020304, SGL: sge}, false, "0000 90 1c 3412 0100 04030201" + to + strings.Repeat("00", 12) + local},
		"SEND inline":    {verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("abc")}, false, "0000 a0 1c 3412 0300 00000000" + to + strings.Repeat("00", 12) + "616263"},
		"READ":           {verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: sge, RKey: 0xdeadbeef, RemoteAddr: 0x0102030405060708}, false, "0000 81 1c 3412 0100 00000000" + to + strings.Repeat("00", 12) + remote + local},
		"WRITE":          {verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: sge, RKey: 0xdeadbeef, RemoteAddr: 0x0102030405060708}, false, "0000 82 1c 3412 0100 00000000" + to + strings.Repeat("00", 12) + remote + local},
		"WRITE_IMM":      {verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 9, SGL: sge, RKey: 0xdeadbeef, RemoteAddr: 0x0102030405060708}, false, "0000 92 1c 3412 0100 09000000" + to + strings.Repeat("00", 12) + remote + local},
		"WRITE inline":   {verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("abc"), RKey: 0xdeadbeef, RemoteAddr: 0x0102030405060708}, true, "0000 a2 1c 3412 0300 00000000" + to + strings.Repeat("00", 12) + "03000000 efbeadde 0807060504030201 616263"},
		"SEND 80 inline": {verbs.SendWR{Opcode: verbs.OpSend, Inline: bytes.Repeat([]byte{7}, 80)}, true, "0000 a0 1c 3412 5000 00000000" + to + strings.Repeat("00", 12) + strings.Repeat("07", 80)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBareWorld(t, func(o *bareOptions) {
				if c.long {
					o.cap.MaxInline = longInline
				}
			})
			c.wr.Flags, c.wr.RemoteQPN, c.wr.RemoteQKey, c.wr.WRID = signaled, 0x1234, 0x11223344, 1<<40
			got := w.send(c.wr)
			want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			size := wqeSize
			if c.long {
				size = longWQE
			}
			want = append(want, make([]byte, size-len(want))...)
			clear(got[:2]) // the id, which has the generation
			if !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
}

// TestStores checks the order of stores: a start, the copies in ascending order, the doorbell; with a
// doorbell for each batch, and the phase of each lap.
func TestStores(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) {
		o.cap.MaxSendWR, o.cap.MaxInline = 4, longInline
		o.limits.MaxTxBatch, o.limits.MinSqWr = 6, 1 // 3 entries of 128 bytes
	})
	wrs := slices.Repeat([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: signaled, AH: w.to}}, 5)
	n, err := w.qp.PostSend(wrs)
	if n != 4 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatal(n, err)
	}
	kinds := func() (all []mmap.StoreKind, offsets []int, values []uint64) {
		for _, s := range w.stores {
			all, offsets, values = append(all, s.Kind), append(offsets, s.Offset), append(values, s.Value)
		}
		return all, offsets, values
	}
	const c, b = mmap.StoreCopy, mmap.StoreWC
	got, offsets, values := kinds()
	if want := []mmap.StoreKind{mmap.StartWC, c, c, c, c, c, c, b, mmap.StartWC, c, c, b}; !slices.Equal(got, want) {
		t.Fatalf("stores %d, want %d", got, want)
	}
	if want := []int{0, 128, 192, 256, 320, 384, 448, 4, 0, 512, 576, 4}; !slices.Equal(offsets, want) {
		t.Errorf("offsets %d, want %d", offsets, want)
	}
	if values[7] != 3 || values[11] != 4 {
		t.Errorf("doorbells %d and %d", values[7], values[11])
	}
	for i := range 4 { // they complete in the opposite order
		id := w.copies[2*(3-i)][:2]
		w.write(i, 0, [cqeSize]byte{0: id[0], 1: id[1], 3: ofSends << 1, 4: bareQPN & 0xff, 5: bareQPN >> 8})
	}
	if wcs := w.poll(); len(wcs) != 4 {
		t.Fatalf("%+v", wcs)
	}
	if e := w.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: signaled}); e[3]&1 != 1 {
		t.Errorf("entry %x, want phase 1 in the second lap", e[:4])
	}
	if s := w.stores[1]; s.Offset != 128 || w.stores[3].Value != 5 {
		t.Errorf("%+v", w.stores)
	}
}

// TestReceives compares the bytes of receives.
func TestReceives(t *testing.T) {
	w := newBareWorld(t, nil)
	wrs := []verbs.RecvWR{
		{WRID: 1, SGL: []verbs.SGE{{Addr: 0x1122334455667788, Length: 70000, LKey: 0xabcdef}}},
		{WRID: 2, SGL: []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}, {Addr: 4, Length: 5, LKey: 6}}},
	}
	w.stores = nil
	if n, err := w.qp.PostRecv(wrs); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	got := bytes.Clone(w.memory[keyRQ].Bytes()[:64])
	id := func(i int) byte { return got[16*i+9] } // the generation
	want, _ := hex.DecodeString("8877665544332211" + "0800" + "ffff" + "efcdabc0" +
		"0100000000000000" + "0900" + "0200" + "03000040" + "0400000000000000" + "0000" + "0500" + "06000080" + strings.Repeat("00", 16))
	if id(0) != 0 || !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	if len(w.stores) != 1 || w.stores[0].Kind != mmap.StorePlain || w.stores[0].Size != 4 || w.stores[0].Offset != 8 || w.stores[0].Value != 3 {
		t.Errorf("%+v", w.stores)
	}
}

// TestReceivesFull checks that a queue takes as many receives as it says, however many SGEs each has.
func TestReceivesFull(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) { o.cap.MaxRecvWR, o.cap.MaxRecvSGE = 5, 3 })
	wrs := slices.Repeat([]verbs.RecvWR{{SGL: make([]verbs.SGE, 3)}}, 6)
	if n, err := w.qp.PostRecv(wrs); n != 5 || !errors.Is(err, verbs.ErrQueueFull) || w.qp.rq.entries != 16 {
		t.Error(n, err, w.qp.rq.entries)
	}
}

// completion is an entry of a CQ.
type completion struct {
	id     uint16
	status uint8
	flags  uint8
	rest   string // from the QP's number on
}

func (c completion) bytes(t testing.TB) (e [cqeSize]byte) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(c.rest, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	e[0], e[1], e[2], e[3] = byte(c.id), byte(c.id>>8), c.status, c.flags
	e[4], e[5] = bareQPN&0xff, bareQPN>>8
	copy(e[6:], b)
	return e
}

// TestCompletions reads each form of a completion.
func TestCompletions(t *testing.T) {
	const sends, receives, imm, stranger = ofSends << 1, ofReceives << 1, 1 << 3, 1 << 7
	const read, write = opRead << 4, opWrite << 4
	gid := verbs.GID{15: 9, 0: 0xfe}
	for name, c := range map[string]struct {
		e    completion
		want verbs.WC
		gid  verbs.GID
	}{
		"SEND":         {completion{flags: sends}, verbs.WC{Opcode: verbs.WCSend}, verbs.GID{}},
		"READ":         {completion{flags: sends | read}, verbs.WC{Opcode: verbs.WCRDMARead}, verbs.GID{}},
		"WRITE":        {completion{flags: sends | write}, verbs.WC{Opcode: verbs.WCRDMAWrite}, verbs.GID{}},
		"unknown":      {completion{flags: sends | 7<<4}, verbs.WC{Opcode: 1<<16 | 7}, verbs.GID{}},
		"RECV":         {completion{flags: receives, rest: "0102 0304 0506"}, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 0x201, SLID: 0x403, SrcQPN: 0x605}, verbs.GID{}},
		"RECV_IMM":     {completion{flags: receives | imm, rest: "0102 0304 0506 04030201"}, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 0x201, SLID: 0x403, SrcQPN: 0x605, Imm: 0x01020304, Flags: verbs.WCWithImm}, verbs.GID{}},
		"WRITE_IMM":    {completion{flags: receives | write | imm, rest: "0102 0304 0506 04030201 0300"}, verbs.WC{Opcode: verbs.WCRecvRDMAWithImm, ByteLen: 0x30201, SLID: 0x403, SrcQPN: 0x605, Imm: 0x01020304, Flags: verbs.WCWithImm}, verbs.GID{}},
		"unsolicited":  {completion{id: 0xffff, flags: receives | write | imm | stranger, rest: "0102 0304 0506 04030201"}, verbs.WC{Opcode: verbs.WCRecvRDMAWithImm, ByteLen: 0x201, SLID: 0x403, SrcQPN: 0x605, Imm: 0x01020304, Flags: verbs.WCWithImm}, verbs.GID{}},
		"unknown peer": {completion{flags: receives, rest: "0102 ffff 0506 00000000 fe" + strings.Repeat("00", 14) + "09"}, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 0x201, SLID: 0xffff, SrcQPN: 0x605}, gid},
		"error":        {completion{status: 10, flags: sends | read | imm}, verbs.WC{Status: verbs.StatusRNRRetryExcErr, VendorErr: 10}, verbs.GID{}},
		"no status":    {completion{status: 16, flags: sends}, verbs.WC{Status: verbs.StatusGeneralErr, VendorErr: 16}, verbs.GID{}},
		"later status": {completion{status: 99, flags: sends}, verbs.WC{Status: verbs.StatusGeneralErr, VendorErr: 99}, verbs.GID{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBareWorld(t, func(o *bareOptions) { o.flags, o.ext = verbs.QPUnsolicitedWriteRecv, verbs.WCExtSourceGID })
			c.want.QPN = bareQPN
			if c.e.id == 0 {
				c.want.WRID = 0x77
				w.send(verbs.SendWR{WRID: 0x77, Opcode: verbs.OpSend, Flags: signaled})
				if n, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 0x77, SGL: make([]verbs.SGE, 1)}}); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				c.e.id = uint16(w.qp.sq.work.Load().generation) // of the first of both queues
				if c.e.flags&receives != 0 {
					c.e.id = uint16(w.qp.rq.work.Load().generation)
				}
			}
			w.write(0, 0, c.e.bytes(t))
			wcs, ext := make([]verbs.WC, 4), make([]verbs.WCExt, 4)
			n, bad, err := w.cq.PollExt(wcs, ext)
			if n != 1 || bad != (c.want.Status != 0) || err != nil || wcs[0] != c.want || ext[0] != (verbs.WCExt{SourceGID: c.gid}) {
				t.Errorf("%d %v %v\ngot  %+v %+v\nwant %+v %v", n, bad, err, wcs[0], ext[0], c.want, c.gid)
			}
			if s := w.stores[len(w.stores)-1]; s.Kind != mmap.StorePlain || s.Size != 4 || s.Offset != 16 || s.Value != 1 {
				t.Errorf("doorbell %+v", s)
			}
			w.write(1, 0, c.e.bytes(t)) // once more: there is no such work request, unless it needs none
			if n, _, _ := w.cq.PollExt(wcs, ext); n != 0 && c.e.flags&stranger == 0 {
				t.Errorf("completed twice: %+v", wcs[0])
			}
		})
	}
}

// TestStrangers checks that completions that match no work request are skipped, and the doorbell is
// rung.
func TestStrangers(t *testing.T) {
	w := newBareWorld(t, nil)
	w.send(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: signaled})
	right := completion{id: uint16(w.qp.sq.work.Load().generation), flags: ofSends << 1}.bytes(t)
	change := func(at int, to byte) [cqeSize]byte { e := right; e[at] ^= to; return e }
	for i, e := range [][cqeSize]byte{
		change(5, 0x80), // another QP with the same low bits
		change(4, 1),    // an unknown QP
		change(0, 4),    // another generation
		change(0, 1),    // a place that is free
		change(1, 0xff),
		change(3, ofSends<<1^ofReceives<<1),
		change(3, ofSends<<1),
		right,
	} {
		w.write(i, 0, e)
	}
	if wcs := w.poll(); len(wcs) != 1 || wcs[0].WRID != 1 {
		t.Errorf("%+v", wcs)
	}
	if s := w.stores[len(w.stores)-1]; s.Value != 8 {
		t.Errorf("%+v", s)
	}
	w.write(0, 1, change(3, ofSends<<1^ofReceives<<1^0x80)) // unsolicited, on a QP that has none such
	if wcs := w.poll(); len(wcs) != 0 || w.stores[len(w.stores)-1].Value != 9 {
		t.Errorf("%+v", wcs)
	}
}

// TestReset checks that work requests of before a RESET have ids of another generation, and the
// queues begin in the first lap.
func TestReset(t *testing.T) {
	w := newBareWorld(t, nil)
	for range 5 {
		e := w.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: signaled})
		w.write(int(w.cq.consumed%8), w.cq.consumed/8, completion{id: uint16(e[0]) | uint16(e[1])<<8, flags: ofSends << 1}.bytes(t))
		if wcs := w.poll(); len(wcs) != 1 {
			t.Fatalf("%+v", wcs)
		}
	}
	old := w.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: signaled})
	w.qp.restart()
	again := w.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: signaled})
	if old[3]&1 != 1 || again[3]&1 != 0 || w.stores[1].Offset != 128 || w.stores[2].Value != 1 {
		t.Errorf("entries %x and %x, stores %+v", old[:4], again[:4], w.stores)
	}
	w.write(5, 0, completion{id: uint16(old[0]) | uint16(old[1])<<8, flags: ofSends << 1}.bytes(t))
	if wcs := w.poll(); len(wcs) != 0 {
		t.Errorf("%+v", wcs)
	}
}

// TestWideIDs checks that where the device has ids of 64 bits, both kinds of entries have all of
// them.
func TestWideIDs(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) { o.attr.DeviceCaps = allCaps })
	w.ctx.generations[bareQPN%256] = 0x89abcdee
	w.qp.restart()
	w.send(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: signaled})
	e := w.send(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: signaled})
	if got := hex.EncodeToString(append(e[:2:2], e[24:32]...)); got != "0100"+"0000"+"0000efcdab89" {
		t.Errorf("id %s", got)
	}
	w.write(0, 0, completion{id: 1, flags: ofSends << 1, rest: "0000efcdab88"}.bytes(t))
	w.write(1, 0, completion{id: 1, flags: ofSends << 1, rest: "0000efcdab89"}.bytes(t))
	if wcs := w.poll(); len(wcs) != 1 || wcs[0].WRID != 2 {
		t.Errorf("%+v", wcs)
	}
}

// TestSubCQs polls the rings of a CQ in turn.
func TestSubCQs(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) { o.limits.SubCqsPerCq = 2; o.cqe = 4 })
	var ids []uint16
	for i := range uint64(3) {
		e := w.send(verbs.SendWR{WRID: i, Opcode: verbs.OpSend, Flags: signaled})
		ids = append(ids, uint16(e[0])|uint16(e[1])<<8)
	}
	for i, at := range []int{0, 4, 5} {
		w.write(at, 0, completion{id: ids[i], flags: ofSends << 1}.bytes(t))
	}
	wcs := w.poll()
	if len(wcs) != 3 || wcs[0].WRID != 0 || wcs[1].WRID != 1 || wcs[2].WRID != 2 || w.stores[len(w.stores)-1].Value != 3 {
		t.Errorf("%+v", wcs)
	}
	if w.cq.Peek().Empty() {
		t.Error("one word tells for two rings")
	}
}

// TestArm checks the doorbell of a CQ.
func TestArm(t *testing.T) {
	w := newBareWorld(t, nil)
	w.cq.consumed = 0x12345
	for i, want := range []uint64{0x80002345, 0xa0002345, 0xc0002345, 0xe0002345, 0x80002345} {
		if err := w.cq.Arm(false); err != nil || w.stores[len(w.stores)-1].Value != want {
			t.Errorf("%d: %v %x, want %x", i, err, w.stores[len(w.stores)-1].Value, want)
		}
		w.cq.Event()
	}
	if err := w.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestSizes checks that the sizes of queues are those that rdma-core chooses.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*bareOptions)
		sq, rq   uint32 // bytes
		cap      verbs.QPCap
		batch    uint32
		flagsOut uint16
	}{
		"plain":       {func(o *bareOptions) {}, 256, 128, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 32}, mostPosted, 0},
		"zero":        {func(o *bareOptions) { o.cap = verbs.QPCap{} }, 64, 16, verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 32}, mostPosted, 0},
		"minimum":     {func(o *bareOptions) { o.limits.MinSqWr = 20 }, 2048, 128, verbs.QPCap{MaxSendWR: 32, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 32}, 31, 0},
		"batch":       {func(o *bareOptions) { o.limits.MaxTxBatch, o.cap.MaxInline = 16, 33 }, 512, 128, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 80}, 8, 0},
		"three SGEs":  {func(o *bareOptions) { o.cap.MaxRecvSGE = 3 }, 256, 256, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 5, MaxSendSGE: 2, MaxRecvSGE: 3, MaxInline: 32}, mostPosted, 0},
		"unsolicited": {func(o *bareOptions) { o.flags = verbs.QPUnsolicitedWriteRecv }, 256, 128, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 32}, mostPosted, 1},
		"wide":        {func(o *bareOptions) { o.attr.DeviceCaps = allCaps }, 256, 128, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 32}, mostPosted, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBareWorld(t, c.change)
			var in abi.EfaIbvCreateQp
			copy(abi.Bytes(&in), w.in)
			want := abi.EfaIbvCreateQp{SqRingSize: c.sq, RqRingSize: c.rq, Flags: c.flagsOut}
			if in != want || w.qp.sq.batch != c.batch {
				t.Errorf("asked for %+v, want %+v; batch %d", in, want, w.qp.sq.batch)
			}
			if got := w.qp.sq.depth; got != c.cap.MaxSendWR || w.qp.rq.depth != c.cap.MaxRecvWR || w.qp.sq.maxInline != int(c.cap.MaxInline) {
				t.Errorf("%d sends, %d receives, %d inline; want %+v", got, w.qp.rq.depth, w.qp.sq.maxInline, c.cap)
			}
		})
	}
}

// FuzzCompletions feeds a CQ with any bytes. Nothing panics, each work request completes once at most,
// and each poll ends.
func FuzzCompletions(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, uint8(1))
	f.Add(bytes.Repeat([]byte{0, 0, 0, ofSends<<1 | 1, 5, 1, 0, 0}, 20), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, options uint8) {
		w := newBareWorld(t, func(o *bareOptions) {
			o.limits.SubCqsPerCq = uint16(options&1) + 1
			if options&2 != 0 {
				o.attr.DeviceCaps = allCaps
			}
			if options&4 != 0 {
				o.flags, o.ext = verbs.QPUnsolicitedWriteRecv, verbs.WCExtSourceGID
			}
		})
		posted := map[uint64]bool{}
		for i := range uint64(4) {
			w.send(verbs.SendWR{WRID: i + 1, Opcode: verbs.OpSend, Flags: signaled})
			if n, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: i + 11, SGL: make([]verbs.SGE, 1)}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			posted[i+1], posted[i+11] = true, true
		}
		copy(w.memory[keyCQ].Bytes(), b)
		wcs, ext := make([]verbs.WC, 3), make([]verbs.WCExt, 3)
		for range 20 {
			n, _, err := w.cq.PollExt(wcs, ext)
			if err != nil {
				t.Fatal(err)
			}
			for _, wc := range wcs[:n] {
				if wc.WRID == 0 && options&4 != 0 {
					continue
				}
				if !posted[wc.WRID] || wc.QPN != bareQPN {
					t.Fatalf("%+v", wc)
				}
				delete(posted, wc.WRID)
			}
		}
		if room := w.qp.sq.work.Load().room() + w.qp.rq.work.Load().room(); int(room) != 8-len(posted) {
			t.Fatalf("room for %d, %d outstanding", room, len(posted))
		}
	})
}
