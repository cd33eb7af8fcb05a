//go:build vm

package rxe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeSend moves messages of several sizes each way, over several packets
// where the service can.
func TestRxeSend(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{})
		sizes, front := []int{0, 1, 1000, 1024, 5000, 20000}, 0
		if typ == verbs.QPTypeUD {
			sizes, front = sizes[:4], uverbs.GRHSize
		}
		for i, size := range sizes {
			kit.Pattern(a.MR.Bytes()[kit.SendFrom:kit.SendFrom+size], byte(i))
			b.PostRecv(uint64(1000+i), 0, front+size)
			a.Post(a.Send(uint64(i), kit.SendFrom, size))
			a.Sent(kit.Brief(verbs.WC{WRID: uint64(i), Opcode: verbs.WCSend}))
			wc := b.Got(kit.Brief(verbs.WC{WRID: uint64(1000 + i), Opcode: verbs.WCRecv, ByteLen: uint32(front + size)}))
			if wc.QPN != b.QP.QPN() || wc.Flags != verbs.WCGRH {
				t.Errorf("%d bytes: %+v", size, wc)
			}
			if from := wc.SrcQPN; typ == verbs.QPTypeUD && from != a.QP.QPN() || typ != verbs.QPTypeUD && from != 0 {
				t.Errorf("%d bytes: from QP %d", size, from)
			}
			if !bytes.Equal(b.MR.Bytes()[front:front+size], a.MR.Bytes()[kit.SendFrom:kit.SendFrom+size]) {
				t.Errorf("%d bytes: not what was sent", size)
			}
			a, b = b, a
		}
	})
}

// TestRxePayload takes a message from 32 places into 32 others, and one of 512
// bytes out of the work request.
func TestRxePayload(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeRC, kit.RxeSetup{Cap: verbs.QPCap{MaxSendSGE: 32, MaxRecvSGE: 32}})
	if c := a.QP.Cap(); c.MaxInline != 512 || c.MaxSendSGE != 32 || c.MaxSendWR < 16 || c.MaxRecvWR < 16 {
		t.Errorf("%+v", c)
	}
	var from, to []verbs.SGE
	for i := range 32 {
		from = append(from, a.MR.SGE(kit.SendFrom+i*200, 100))
		to = append(to, b.MR.SGE(i*300, 100))
		kit.Pattern(a.MR.Bytes()[kit.SendFrom+i*200:][:100], byte(i))
	}
	if _, err := b.QP.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: to}}); err != nil {
		t.Fatal(err)
	}
	b.PostRecv(2, 20000, 512)
	b.PostRecv(3, 20000, 512)
	long := kit.Pattern(make([]byte, 512), 99)
	a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: from},
		verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: long},
		verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte{}})
	for i, size := range []uint32{3200, 512, 0} {
		a.Sent(kit.Brief(verbs.WC{WRID: uint64(i + 1), Opcode: verbs.WCSend}))
		b.Got(kit.Brief(verbs.WC{WRID: uint64(i + 1), Opcode: verbs.WCRecv, ByteLen: size}))
	}
	for i := range 32 {
		if !bytes.Equal(b.MR.Bytes()[i*300:][:100], a.MR.Bytes()[kit.SendFrom+i*200:][:100]) {
			t.Errorf("place %d: not what was sent", i)
		}
	}
	if !bytes.Equal(b.MR.Bytes()[20000:20512], long) {
		t.Error("inline: not what was sent")
	}
}

// TestRxeImmediate carries numbers, and the sender's completion does not pretend
// to have any.
func TestRxeImmediate(t *testing.T) {
	const number = 0x01020304
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{})
		ops := map[verbs.Opcode]verbs.WCOpcode{verbs.OpSendImm: verbs.WCRecv}
		if typ != verbs.QPTypeUD {
			ops[verbs.OpRDMAWriteImm] = verbs.WCRecvRDMAWithImm
		}
		for op, want := range ops {
			b.PostRecv(1, 0, 100)
			wr := a.Send(2, kit.SendFrom, 8)
			wr.Opcode, wr.Imm = op, number
			a.Post(wr)
			if wc := a.Next(a.SendCQ); wc.Status != verbs.StatusSuccess || wc.Flags != 0 || wc.Imm != 0 {
				t.Errorf("%v: sender has %+v", op, wc)
			}
			if wc := b.Next(b.RecvCQ); wc.Opcode != want || wc.Flags != verbs.WCGRH|verbs.WCWithImm || wc.Imm != number {
				t.Errorf("%v: receiver has %+v", op, wc)
			}
		}
	})
}

// TestRxeRDMA writes, reads and counts in the peer's memory.
func TestRxeRDMA(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	const size = 5000
	sgl := []verbs.SGE{a.MR.SGE(kit.SendFrom, size)}
	write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: sgl} // unsignaled
	kit.Pattern(a.MR.Bytes()[kit.SendFrom:][:size], 1)
	back := verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, size)}}
	a.Post(a.To(write), a.To(back))
	a.Sent("2 RDMA_READ success")
	if !bytes.Equal(b.MR.Bytes()[:size], a.MR.Bytes()[kit.SendFrom:][:size]) || !bytes.Equal(a.MR.Bytes()[:size], b.MR.Bytes()[:size]) {
		t.Error("not what was written")
	}

	word := func(e *kit.RxeEnd) uint64 { return binary.NativeEndian.Uint64(e.MR.Bytes()) }
	binary.NativeEndian.PutUint64(b.MR.Bytes(), 40)
	result := []verbs.SGE{a.MR.SGE(0, 8)}
	for _, c := range []struct {
		wr       verbs.SendWR
		want     string
		old, now uint64
	}{
		{verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 2}, "0 FETCH_ADD success", 40, 42},
		{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 41, Swap: 1}, "0 COMP_SWAP success", 42, 42},
		{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 42, Swap: 1<<63 + 7}, "0 COMP_SWAP success", 42, 1<<63 + 7},
	} {
		c.wr.SGL, c.wr.Flags = result, verbs.SendSignaled|verbs.SendFence
		a.Post(a.To(c.wr))
		a.Sent(c.want)
		if word(a) != c.old || word(b) != c.now {
			t.Errorf("%v: was %d, is %d; want %d and %d", c.wr.Opcode, word(a), word(b), c.old, c.now)
		}
	}

	value := binary.NativeEndian.AppendUint64(nil, 0x1122334455667788)
	newer := []verbs.SendWR{
		a.To(verbs.SendWR{WRID: 3, Opcode: verbs.OpAtomicWrite, Flags: verbs.SendSignaled, Inline: value}),
		a.To(verbs.SendWR{WRID: 4, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, Flush: verbs.Flush{Length: 4096, Type: verbs.FlushGlobal}}),
		a.To(verbs.SendWR{WRID: 5, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, Flush: verbs.Flush{Type: verbs.FlushGlobal, Level: verbs.FlushMR}}),
	}
	has := d.Has(verbs.DeviceCapAtomicWrite | verbs.DeviceCapFlushGlobal)
	if has == kit.OnKernel("6.1") { // they came with Linux 6.3
		t.Errorf("%v", d.Attr.CapFlags)
	}
	if !has {
		for _, wr := range newer {
			if n, err := a.QP.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("%v: %d, %v", wr.Opcode, n, err)
			}
		}
		return
	}
	a.Post(newer...)
	a.Sent("3 ATOMIC_WRITE success")
	a.Sent("4 FLUSH success")
	a.Sent("5 FLUSH success")
	if word(b) != 0x1122334455667788 {
		t.Errorf("atomic write: %#x", word(b))
	}
}

// TestRxeUnreliableWrite checks that UC can write.
func TestRxeUnreliableWrite(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeUC, kit.RxeSetup{})
	kit.Pattern(a.MR.Bytes()[kit.SendFrom:][:3000], 7)
	b.PostRecv(1, 0, 1)
	a.Post(a.To(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.MR.SGE(kit.SendFrom, 3000)}}),
		a.To(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled}))
	a.Sent("2 RDMA_WRITE success")
	b.Got("1 RECV_RDMA_WITH_IMM success")
	if !bytes.Equal(b.MR.Bytes()[:3000], a.MR.Bytes()[kit.SendFrom:][:3000]) {
		t.Error("not what was written")
	}
}

// TestRxeWindow binds windows of both types, uses them and ends them.
func TestRxeWindow(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	part := verbs.BindMW{MR: b.MR, Addr: b.MR.Addr() + 4096, Length: 4096, Access: verbs.AccessRemoteWrite}
	write := func(key uint32, data string) {
		t.Helper()
		copy(a.MR.Bytes(), data)
		a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: part.Addr, RKey: key,
			SGL: []verbs.SGE{a.MR.SGE(0, len(data))}})
		a.Sent("1 RDMA_WRITE success")
		if got := string(b.MR.Bytes()[4096:][:len(data)]); got != data {
			t.Errorf("%q, want %q", got, data)
		}
	}

	one := kit.Must(b.Dev.PD.AllocMW(verbs.MWType1))(t)
	kit.CloseLater(t, one)
	for _, data := range []string{"first", "again"} {
		if err := one.Bind(b.QP, 5, verbs.SendSignaled, part); err != nil {
			t.Fatal(err)
		}
		b.Sent("5 BIND_MW success")
		write(one.RKey(), data)
	}
	if err := one.Bind(b.QP, 6, verbs.SendSignaled, verbs.BindMW{}); err != nil {
		t.Fatal(err)
	}
	b.Sent("6 BIND_MW success")

	two := kit.Must(b.Dev.PD.AllocMW(verbs.MWType2))(t)
	kit.CloseLater(t, two)
	bind := func() uint32 {
		t.Helper()
		part.MW, part.RKey = two, uverbs.IncRKey(two.RKey())
		b.Post(verbs.SendWR{WRID: 7, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &part})
		b.Sent("7 BIND_MW success")
		return part.RKey
	}
	key := bind()
	write(key, "second type")
	b.Post(verbs.SendWR{WRID: 8, Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
	b.Sent("8 LOCAL_INV success")
	key = bind()
	write(key, "second key")
	b.PostRecv(9, 0, 8)
	a.Post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
	a.Sent("9 SEND success")
	if wc := b.Got("9 RECV success 0"); wc.Flags != verbs.WCGRH|verbs.WCWithInv || wc.InvalidatedRKey() != key {
		t.Errorf("%+v", wc)
	}
	a.Post(verbs.SendWR{WRID: 10, Opcode: verbs.OpRDMAWrite, RemoteAddr: part.Addr, RKey: key, SGL: []verbs.SGE{a.MR.SGE(0, 8)}})
	if wc := a.Next(a.SendCQ); wc.Status != verbs.StatusRemAccessErr {
		t.Errorf("a dead key: %+v", wc)
	}
}

// TestRxeRing goes around the rings many times, in batches that fill them.
func TestRxeRing(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	room := int(a.QP.Cap().MaxSendWR)
	var next, seen, done uint64
	for range 20 {
		recvs := make([]verbs.RecvWR, room+3)
		if n, err := b.QP.PostRecv(recvs); n != room || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("%d receives, %v", n, err)
		}
		sends := make([]verbs.SendWR, room+3)
		for i := range sends {
			sends[i] = verbs.SendWR{WRID: next + uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(next) + uint32(i), Flags: verbs.SendSignaled}
		}
		// A send may be done before the last of the batch is posted.
		n, err := a.QP.PostSend(sends[:room])
		if n != room || err != nil {
			t.Fatalf("%d sends, %v", n, err)
		}
		next += uint64(n)
		for ; done < next; done++ {
			if wc := a.Next(a.SendCQ); wc.WRID != done || wc.Status != verbs.StatusSuccess {
				t.Fatalf("send %d: %+v", done, wc)
			}
		}
		for ; seen < next; seen++ {
			if wc := b.Next(b.RecvCQ); wc.Imm != uint32(seen) || wc.Status != verbs.StatusSuccess {
				t.Fatalf("receive %d: %+v", seen, wc)
			}
		}
	}
}

// TestRxeZeroLength checks that a write and a read of nothing need no memory at either end, neither named, nor
// registered, nor allowed, and change none.
func TestRxeZeroLength(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{Access: verbs.AccessLocalWrite})
	kit.Pattern(a.MR.Bytes(), 1)
	kit.Pattern(b.MR.Bytes(), 2)
	mine, theirs := bytes.Clone(a.MR.Bytes()), bytes.Clone(b.MR.Bytes())
	b.PostRecv(1, 0, 100)
	for name, sgl := range map[string][]verbs.SGE{"no SGE": nil, "an SGE of 0 bytes": {a.MR.SGE(0, 0)}} {
		for _, to := range []verbs.SendWR{{}, {RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}} {
			for op, want := range map[verbs.Opcode]string{verbs.OpRDMAWrite: "RDMA_WRITE", verbs.OpRDMARead: "RDMA_READ"} {
				to.WRID, to.Opcode, to.Flags, to.SGL = 7, op, verbs.SendSignaled, sgl
				a.Post(to)
				if got := kit.Brief(a.Next(a.SendCQ)); got != fmt.Sprintf("7 %s success", want) {
					t.Fatalf("%v with %s: %s", op, name, got)
				}
			}
		}
	}
	a.Post(verbs.SendWR{WRID: 8, Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled, Imm: 5})
	a.Sent("8 RDMA_WRITE success")
	if wc := b.Next(b.RecvCQ); wc.Status != verbs.StatusSuccess || wc.ByteLen != 0 || wc.Imm != 5 {
		t.Errorf("%+v", wc)
	}
	if !bytes.Equal(a.MR.Bytes(), mine) || !bytes.Equal(b.MR.Bytes(), theirs) {
		t.Error("memory changed")
	}
}

// TestRxeDataOrder checks that rxe promises nothing of the order in which data arrives.
func TestRxeDataOrder(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, _ := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{})
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead} {
			if got := a.QP.DataOrder(op); got != 0 {
				t.Errorf("%v: %v", op, got)
			}
		}
	})
}
