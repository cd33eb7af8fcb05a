//go:build vm

package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeSend moves messages of several sizes each way, over several packets
// where the service can.
func TestRxeSend(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		sizes, front := []int{0, 1, 1000, 1024, 5000, 20000}, 0
		if typ == verbs.QPTypeUD {
			sizes, front = sizes[:4], uverbs.GRHSize
		}
		for i, size := range sizes {
			pattern(a.mr.Bytes()[sendFrom:sendFrom+size], byte(i))
			b.postRecv(uint64(1000+i), 0, front+size)
			a.post(a.send(uint64(i), sendFrom, size))
			a.sent(brief(verbs.WC{WRID: uint64(i), Opcode: verbs.WCSend}))
			wc := b.got(brief(verbs.WC{WRID: uint64(1000 + i), Opcode: verbs.WCRecv, ByteLen: uint32(front + size)}))
			if wc.QPN != b.qp.Num() || wc.Flags != verbs.WCGRH {
				t.Errorf("%d bytes: %+v", size, wc)
			}
			if from := wc.SrcQP; typ == verbs.QPTypeUD && from != a.qp.Num() || typ != verbs.QPTypeUD && from != 0 {
				t.Errorf("%d bytes: from QP %d", size, from)
			}
			if !bytes.Equal(b.mr.Bytes()[front:front+size], a.mr.Bytes()[sendFrom:sendFrom+size]) {
				t.Errorf("%d bytes: not what was sent", size)
			}
			a, b = b, a
		}
	})
}

// TestRxePayload takes a message from 32 places into 32 others, and one of 512
// bytes out of the work request.
func TestRxePayload(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeRC, rxeSetup{cap: verbs.QPCap{MaxSendSGE: 32, MaxRecvSGE: 32}})
	if c := a.qp.Cap(); c.MaxInline != 512 || c.MaxSendSGE != 32 || c.MaxSendWR < 16 || c.MaxRecvWR < 16 {
		t.Errorf("%+v", c)
	}
	var from, to []verbs.SGE
	for i := range 32 {
		from = append(from, a.mr.SGE(sendFrom+i*200, 100))
		to = append(to, b.mr.SGE(i*300, 100))
		pattern(a.mr.Bytes()[sendFrom+i*200:][:100], byte(i))
	}
	if _, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: to}}); err != nil {
		t.Fatal(err)
	}
	b.postRecv(2, 20000, 512)
	b.postRecv(3, 20000, 512)
	long := pattern(make([]byte, 512), 99)
	a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: from},
		verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: long},
		verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte{}})
	for i, size := range []uint32{3200, 512, 0} {
		a.sent(brief(verbs.WC{WRID: uint64(i + 1), Opcode: verbs.WCSend}))
		b.got(brief(verbs.WC{WRID: uint64(i + 1), Opcode: verbs.WCRecv, ByteLen: size}))
	}
	for i := range 32 {
		if !bytes.Equal(b.mr.Bytes()[i*300:][:100], a.mr.Bytes()[sendFrom+i*200:][:100]) {
			t.Errorf("place %d: not what was sent", i)
		}
	}
	if !bytes.Equal(b.mr.Bytes()[20000:20512], long) {
		t.Error("inline: not what was sent")
	}
}

// TestRxeImmediate carries numbers, and the sender's completion does not pretend
// to have any.
func TestRxeImmediate(t *testing.T) {
	const number = 0x01020304
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		ops := map[verbs.Opcode]verbs.WCOpcode{verbs.OpSendImm: verbs.WCRecv}
		if typ != verbs.QPTypeUD {
			ops[verbs.OpRDMAWriteImm] = verbs.WCRecvRDMAWithImm
		}
		for op, want := range ops {
			b.postRecv(1, 0, 100)
			wr := a.send(2, sendFrom, 8)
			wr.Opcode, wr.Imm = op, number
			a.post(wr)
			if wc := a.next(a.sendCQ); wc.Status != verbs.StatusSuccess || wc.Flags != 0 || wc.Imm != 0 {
				t.Errorf("%v: sender has %+v", op, wc)
			}
			if wc := b.next(b.recvCQ); wc.Opcode != want || wc.Flags != verbs.WCGRH|verbs.WCWithImm || wc.Imm != number {
				t.Errorf("%v: receiver has %+v", op, wc)
			}
		}
	})
}

// TestRxeRDMA writes, reads and counts in the peer's memory.
func TestRxeRDMA(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	const size = 5000
	sgl := []verbs.SGE{a.mr.SGE(sendFrom, size)}
	write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: sgl} // unsignaled
	pattern(a.mr.Bytes()[sendFrom:][:size], 1)
	back := verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.mr.SGE(0, size)}}
	a.post(a.to(write), a.to(back))
	a.sent("2 RDMA_READ success")
	if !bytes.Equal(b.mr.Bytes()[:size], a.mr.Bytes()[sendFrom:][:size]) || !bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]) {
		t.Error("not what was written")
	}

	word := func(e *rxeEnd) uint64 { return binary.NativeEndian.Uint64(e.mr.Bytes()) }
	binary.NativeEndian.PutUint64(b.mr.Bytes(), 40)
	result := []verbs.SGE{a.mr.SGE(0, 8)}
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
		a.post(a.to(c.wr))
		a.sent(c.want)
		if word(a) != c.old || word(b) != c.now {
			t.Errorf("%v: was %d, is %d; want %d and %d", c.wr.Opcode, word(a), word(b), c.old, c.now)
		}
	}

	value := binary.NativeEndian.AppendUint64(nil, 0x1122334455667788)
	newer := []verbs.SendWR{
		a.to(verbs.SendWR{WRID: 3, Opcode: verbs.OpAtomicWrite, Flags: verbs.SendSignaled, Inline: value}),
		a.to(verbs.SendWR{WRID: 4, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, Flush: verbs.Flush{Length: 4096, Type: verbs.FlushGlobal}}),
		a.to(verbs.SendWR{WRID: 5, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, Flush: verbs.Flush{Type: verbs.FlushGlobal, Level: verbs.FlushMR}}),
	}
	has := d.has(verbs.DeviceCapAtomicWrite | verbs.DeviceCapFlushGlobal)
	if has == onKernel("6.1") { // they came with Linux 6.3
		t.Errorf("%v", d.attr.CapFlags)
	}
	if !has {
		for _, wr := range newer {
			if n, err := a.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("%v: %d, %v", wr.Opcode, n, err)
			}
		}
		return
	}
	a.post(newer...)
	a.sent("3 ATOMIC_WRITE success")
	a.sent("4 FLUSH success")
	a.sent("5 FLUSH success")
	if word(b) != 0x1122334455667788 {
		t.Errorf("atomic write: %#x", word(b))
	}
}

// TestRxeUnreliableWrite: UC can write.
func TestRxeUnreliableWrite(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeUC, rxeSetup{})
	pattern(a.mr.Bytes()[sendFrom:][:3000], 7)
	b.postRecv(1, 0, 1)
	a.post(a.to(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.mr.SGE(sendFrom, 3000)}}),
		a.to(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled}))
	a.sent("2 RDMA_WRITE success")
	b.got("1 RECV_RDMA_WITH_IMM success")
	if !bytes.Equal(b.mr.Bytes()[:3000], a.mr.Bytes()[sendFrom:][:3000]) {
		t.Error("not what was written")
	}
}

// TestRxeWindow binds windows of both types, uses them and ends them.
func TestRxeWindow(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeRC, rxeSetup{})
	part := verbs.BindMW{MR: b.mr, Addr: b.mr.Addr() + 4096, Length: 4096, Access: verbs.AccessRemoteWrite}
	write := func(key uint32, data string) {
		t.Helper()
		copy(a.mr.Bytes(), data)
		a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: part.Addr, RKey: key,
			SGL: []verbs.SGE{a.mr.SGE(0, len(data))}})
		a.sent("1 RDMA_WRITE success")
		if got := string(b.mr.Bytes()[4096:][:len(data)]); got != data {
			t.Errorf("%q, want %q", got, data)
		}
	}

	one := must(b.dev.pd.AllocMW(verbs.MWType1))(t)
	closeLater(t, one)
	for _, data := range []string{"first", "again"} {
		if err := one.Bind(b.qp, 5, verbs.SendSignaled, part); err != nil {
			t.Fatal(err)
		}
		b.sent("5 BIND_MW success")
		write(one.RKey(), data)
	}
	if err := one.Bind(b.qp, 6, verbs.SendSignaled, verbs.BindMW{}); err != nil {
		t.Fatal(err)
	}
	b.sent("6 BIND_MW success")

	two := must(b.dev.pd.AllocMW(verbs.MWType2))(t)
	closeLater(t, two)
	bind := func() uint32 {
		t.Helper()
		part.MW, part.RKey = two, uverbs.IncRKey(two.RKey())
		b.post(verbs.SendWR{WRID: 7, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &part})
		b.sent("7 BIND_MW success")
		return part.RKey
	}
	key := bind()
	write(key, "second type")
	b.post(verbs.SendWR{WRID: 8, Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
	b.sent("8 LOCAL_INV success")
	key = bind()
	write(key, "second key")
	b.postRecv(9, 0, 8)
	a.post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
	a.sent("9 SEND success")
	if wc := b.got("9 RECV success 0"); wc.Flags != verbs.WCGRH|verbs.WCWithInv || wc.InvalidatedRKey() != key {
		t.Errorf("%+v", wc)
	}
	a.post(verbs.SendWR{WRID: 10, Opcode: verbs.OpRDMAWrite, RemoteAddr: part.Addr, RKey: key, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
	if wc := a.next(a.sendCQ); wc.Status != verbs.StatusRemAccessErr {
		t.Errorf("a dead key: %+v", wc)
	}
}

// TestRxeRing goes around the rings many times, in batches that fill them.
func TestRxeRing(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeRC, rxeSetup{})
	room := int(a.qp.Cap().MaxSendWR)
	var next, seen, done uint64
	for range 20 {
		recvs := make([]verbs.RecvWR, room+3)
		if n, err := b.qp.PostRecv(recvs); n != room || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("%d receives, %v", n, err)
		}
		sends := make([]verbs.SendWR, room+3)
		for i := range sends {
			sends[i] = verbs.SendWR{WRID: next + uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(next) + uint32(i), Flags: verbs.SendSignaled}
		}
		// A send may be done before the last of the batch is posted.
		n, err := a.qp.PostSend(sends[:room])
		if n != room || err != nil {
			t.Fatalf("%d sends, %v", n, err)
		}
		next += uint64(n)
		for ; done < next; done++ {
			if wc := a.next(a.sendCQ); wc.WRID != done || wc.Status != verbs.StatusSuccess {
				t.Fatalf("send %d: %+v", done, wc)
			}
		}
		for ; seen < next; seen++ {
			if wc := b.next(b.recvCQ); wc.Imm != uint32(seen) || wc.Status != verbs.StatusSuccess {
				t.Fatalf("receive %d: %+v", seen, wc)
			}
		}
	}
}
