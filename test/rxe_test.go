//go:build vm

package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// TestRxeSend moves messages of several sizes each way, over several packets
// where the service can.
func TestRxeSend(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		sizes, front := []int{0, 1, 1000, 1024, 5000, 20000}, 0
		if typ == uverbs.QPTypeUD {
			sizes, front = sizes[:4], uverbs.GRHSize
		}
		for i, size := range sizes {
			pattern(a.mr.Bytes()[sendFrom:sendFrom+size], byte(i))
			b.postRecv(uint64(1000+i), 0, front+size)
			a.post(a.send(uint64(i), sendFrom, size))
			a.sent(brief(uverbs.WC{WRID: uint64(i), Opcode: uverbs.WCSend}))
			wc := b.got(brief(uverbs.WC{WRID: uint64(1000 + i), Opcode: uverbs.WCRecv, ByteLen: uint32(front + size)}))
			if wc.QPN != b.qp.Num() || wc.Flags != uverbs.WCGRH {
				t.Errorf("%d bytes: %+v", size, wc)
			}
			if from := wc.SrcQP; typ == uverbs.QPTypeUD && from != a.qp.Num() || typ != uverbs.QPTypeUD && from != 0 {
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
	a, b := openRxe(t).pair(t, uverbs.QPTypeRC, rxeSetup{cap: uverbs.QPCap{MaxSendSGE: 32, MaxRecvSGE: 32}})
	if c := a.qp.Cap(); c.MaxInline != 512 || c.MaxSendSGE != 32 || c.MaxSendWR < 16 || c.MaxRecvWR < 16 {
		t.Errorf("%+v", c)
	}
	var from, to []uverbs.SGE
	for i := range 32 {
		from = append(from, a.mr.SGE(sendFrom+i*200, 100))
		to = append(to, b.mr.SGE(i*300, 100))
		pattern(a.mr.Bytes()[sendFrom+i*200:][:100], byte(i))
	}
	if _, err := b.qp.PostRecv([]uverbs.RecvWR{{WRID: 1, SGL: to}}); err != nil {
		t.Fatal(err)
	}
	b.postRecv(2, 20000, 512)
	b.postRecv(3, 20000, 512)
	long := pattern(make([]byte, 512), 99)
	a.post(uverbs.SendWR{WRID: 1, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: from},
		uverbs.SendWR{WRID: 2, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, Inline: long},
		uverbs.SendWR{WRID: 3, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, Inline: []byte{}})
	for i, size := range []uint32{3200, 512, 0} {
		a.sent(brief(uverbs.WC{WRID: uint64(i + 1), Opcode: uverbs.WCSend}))
		b.got(brief(uverbs.WC{WRID: uint64(i + 1), Opcode: uverbs.WCRecv, ByteLen: size}))
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
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		ops := map[uverbs.Opcode]uverbs.WCOpcode{uverbs.OpSendImm: uverbs.WCRecv}
		if typ != uverbs.QPTypeUD {
			ops[uverbs.OpRDMAWriteImm] = uverbs.WCRecvRDMAWithImm
		}
		for op, want := range ops {
			b.postRecv(1, 0, 100)
			wr := a.send(2, sendFrom, 8)
			wr.Opcode, wr.Imm = op, number
			a.post(wr)
			if wc := a.next(a.sendCQ); wc.Status != uverbs.StatusSuccess || wc.Flags != 0 || wc.Imm != 0 {
				t.Errorf("%v: sender has %+v", op, wc)
			}
			if wc := b.next(b.recvCQ); wc.Opcode != want || wc.Flags != uverbs.WCGRH|uverbs.WCWithImm || wc.Imm != number {
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
	a, b := d.pair(t, uverbs.QPTypeRC, rxeSetup{})
	const size = 5000
	sgl := []uverbs.SGE{a.mr.SGE(sendFrom, size)}
	write := uverbs.SendWR{WRID: 1, Opcode: uverbs.OpRDMAWrite, SGL: sgl} // unsignaled
	pattern(a.mr.Bytes()[sendFrom:][:size], 1)
	back := uverbs.SendWR{WRID: 2, Opcode: uverbs.OpRDMARead, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{a.mr.SGE(0, size)}}
	a.post(a.to(write), a.to(back))
	a.sent("2 RDMA_READ success")
	if !bytes.Equal(b.mr.Bytes()[:size], a.mr.Bytes()[sendFrom:][:size]) || !bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]) {
		t.Error("not what was written")
	}

	word := func(e *rxeEnd) uint64 { return binary.NativeEndian.Uint64(e.mr.Bytes()) }
	binary.NativeEndian.PutUint64(b.mr.Bytes(), 40)
	result := []uverbs.SGE{a.mr.SGE(0, 8)}
	for _, c := range []struct {
		wr       uverbs.SendWR
		want     string
		old, now uint64
	}{
		{uverbs.SendWR{Opcode: uverbs.OpFetchAdd, CompareAdd: 2}, "0 FETCH_ADD success", 40, 42},
		{uverbs.SendWR{Opcode: uverbs.OpCompareSwap, CompareAdd: 41, Swap: 1}, "0 COMP_SWAP success", 42, 42},
		{uverbs.SendWR{Opcode: uverbs.OpCompareSwap, CompareAdd: 42, Swap: 1<<63 + 7}, "0 COMP_SWAP success", 42, 1<<63 + 7},
	} {
		c.wr.SGL, c.wr.Flags = result, uverbs.SendSignaled|uverbs.SendFence
		a.post(a.to(c.wr))
		a.sent(c.want)
		if word(a) != c.old || word(b) != c.now {
			t.Errorf("%v: was %d, is %d; want %d and %d", c.wr.Opcode, word(a), word(b), c.old, c.now)
		}
	}

	value := binary.NativeEndian.AppendUint64(nil, 0x1122334455667788)
	newer := []uverbs.SendWR{
		a.to(uverbs.SendWR{WRID: 3, Opcode: uverbs.OpAtomicWrite, Flags: uverbs.SendSignaled, Inline: value}),
		a.to(uverbs.SendWR{WRID: 4, Opcode: uverbs.OpFlush, Flags: uverbs.SendSignaled, Flush: uverbs.Flush{Length: 4096, Type: uverbs.FlushGlobal}}),
		a.to(uverbs.SendWR{WRID: 5, Opcode: uverbs.OpFlush, Flags: uverbs.SendSignaled, Flush: uverbs.Flush{Type: uverbs.FlushGlobal, Level: uverbs.FlushMR}}),
	}
	has := d.has(uverbs.DeviceCapAtomicWrite | uverbs.DeviceCapFlushGlobal)
	if has == onKernel("6.1") { // they came with Linux 6.3
		t.Errorf("%v", d.attr.CapFlags)
	}
	if !has {
		for _, wr := range newer {
			if n, err := a.qp.PostSend([]uverbs.SendWR{wr}); n != 0 || !errors.Is(err, uverbs.ErrNotSupported) {
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
	a, b := openRxe(t).pair(t, uverbs.QPTypeUC, rxeSetup{})
	pattern(a.mr.Bytes()[sendFrom:][:3000], 7)
	b.postRecv(1, 0, 1)
	a.post(a.to(uverbs.SendWR{WRID: 1, Opcode: uverbs.OpRDMAWrite, SGL: []uverbs.SGE{a.mr.SGE(sendFrom, 3000)}}),
		a.to(uverbs.SendWR{WRID: 2, Opcode: uverbs.OpRDMAWriteImm, Flags: uverbs.SendSignaled}))
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
	a, b := openRxe(t).pair(t, uverbs.QPTypeRC, rxeSetup{})
	part := uverbs.BindMW{MR: b.mr, Addr: b.mr.Addr() + 4096, Length: 4096, Access: uverbs.AccessRemoteWrite}
	write := func(key uint32, data string) {
		t.Helper()
		copy(a.mr.Bytes(), data)
		a.post(uverbs.SendWR{WRID: 1, Opcode: uverbs.OpRDMAWrite, Flags: uverbs.SendSignaled, RemoteAddr: part.Addr, RKey: key,
			SGL: []uverbs.SGE{a.mr.SGE(0, len(data))}})
		a.sent("1 RDMA_WRITE success")
		if got := string(b.mr.Bytes()[4096:][:len(data)]); got != data {
			t.Errorf("%q, want %q", got, data)
		}
	}

	one := must(b.dev.pd.AllocMW(uverbs.MWType1))(t)
	closeLater(t, one)
	for _, data := range []string{"first", "again"} {
		if err := one.Bind(b.qp, 5, uverbs.SendSignaled, part); err != nil {
			t.Fatal(err)
		}
		b.sent("5 BIND_MW success")
		write(one.RKey(), data)
	}
	if err := one.Bind(b.qp, 6, uverbs.SendSignaled, uverbs.BindMW{}); err != nil {
		t.Fatal(err)
	}
	b.sent("6 BIND_MW success")

	two := must(b.dev.pd.AllocMW(uverbs.MWType2))(t)
	closeLater(t, two)
	bind := func() uint32 {
		t.Helper()
		part.MW, part.RKey = two, uverbs.IncRKey(two.RKey())
		b.post(uverbs.SendWR{WRID: 7, Opcode: uverbs.OpBindMW, Flags: uverbs.SendSignaled, Bind: &part})
		b.sent("7 BIND_MW success")
		return part.RKey
	}
	key := bind()
	write(key, "second type")
	b.post(uverbs.SendWR{WRID: 8, Opcode: uverbs.OpLocalInv, Flags: uverbs.SendSignaled, InvalidateRKey: key})
	b.sent("8 LOCAL_INV success")
	key = bind()
	write(key, "second key")
	b.postRecv(9, 0, 8)
	a.post(uverbs.SendWR{WRID: 9, Opcode: uverbs.OpSendWithInv, Flags: uverbs.SendSignaled, InvalidateRKey: key})
	a.sent("9 SEND success")
	if wc := b.got("9 RECV success 0"); wc.Flags != uverbs.WCGRH|uverbs.WCWithInv || wc.InvalidatedRKey() != key {
		t.Errorf("%+v", wc)
	}
	a.post(uverbs.SendWR{WRID: 10, Opcode: uverbs.OpRDMAWrite, RemoteAddr: part.Addr, RKey: key, SGL: []uverbs.SGE{a.mr.SGE(0, 8)}})
	if wc := a.next(a.sendCQ); wc.Status != uverbs.StatusRemAccessErr {
		t.Errorf("a dead key: %+v", wc)
	}
}

// TestRxeRing goes around the rings many times, in batches that fill them.
func TestRxeRing(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, uverbs.QPTypeRC, rxeSetup{})
	room := int(a.qp.Cap().MaxSendWR)
	var next, seen, done uint64
	for range 20 {
		recvs := make([]uverbs.RecvWR, room+3)
		if n, err := b.qp.PostRecv(recvs); n != room || !errors.Is(err, uverbs.ErrQueueFull) {
			t.Fatalf("%d receives, %v", n, err)
		}
		sends := make([]uverbs.SendWR, room+3)
		for i := range sends {
			sends[i] = uverbs.SendWR{WRID: next + uint64(i), Opcode: uverbs.OpSendImm, Imm: uint32(next) + uint32(i), Flags: uverbs.SendSignaled}
		}
		// A send may be done before the last of the batch is posted.
		n, err := a.qp.PostSend(sends[:room])
		if n != room || err != nil {
			t.Fatalf("%d sends, %v", n, err)
		}
		next += uint64(n)
		for ; done < next; done++ {
			if wc := a.next(a.sendCQ); wc.WRID != done || wc.Status != uverbs.StatusSuccess {
				t.Fatalf("send %d: %+v", done, wc)
			}
		}
		for ; seen < next; seen++ {
			if wc := b.next(b.recvCQ); wc.Imm != uint32(seen) || wc.Status != uverbs.StatusSuccess {
				t.Fatalf("receive %d: %+v", seen, wc)
			}
		}
	}
}
