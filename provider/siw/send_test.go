package siw

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
)

var sgl = []uverbs.SGE{{Addr: 0x1000, Length: 10, LKey: 0x101}, {Addr: 0x2000, Length: 20, LKey: 0x102}, {Addr: 0x3000, Length: 30, LKey: 0x103}}

func sges(n int) (out [6]abi.SiwSge) {
	for i, s := range sgl[:n] {
		out[i] = abi.SiwSge{Laddr: s.Addr, Length: s.Length, Lkey: s.LKey}
	}
	return out
}

func TestSendEntry(t *testing.T) {
	const valid = abi.SIW_WQE_VALID
	for _, c := range []struct {
		name string
		wr   uverbs.SendWR
		want abi.SiwSqe
	}{
		{"send", uverbs.SendWR{WRID: 1, Opcode: uverbs.OpSend, SGL: sgl[:2]},
			abi.SiwSqe{Id: 1, Flags: valid, NumSge: 2, Opcode: abi.SIW_OP_SEND, Sge: sges(2)}},
		{"send of nothing", uverbs.SendWR{WRID: 1 << 63, Opcode: uverbs.OpSend},
			abi.SiwSqe{Id: 1 << 63, Flags: valid, Opcode: abi.SIW_OP_SEND}},
		{"send with invalidate", uverbs.SendWR{Opcode: uverbs.OpSendWithInv, RKey: 5, InvalidateRKey: 6, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_SEND_REMOTE_INV, Rkey: 6, Sge: sges(1)}},
		{"write", uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, RemoteAddr: 0xabc, RKey: 7, SGL: sgl[:3]},
			abi.SiwSqe{Flags: valid, NumSge: 3, Opcode: abi.SIW_OP_WRITE, Raddr: 0xabc, Rkey: 7, Sge: sges(3)}},
		{"read", uverbs.SendWR{Opcode: uverbs.OpRDMARead, RemoteAddr: 0xabc, RKey: 7, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_READ, Raddr: 0xabc, Rkey: 7, Sge: sges(1)}},
		{"read with invalidate", uverbs.SendWR{Opcode: uverbs.OpReadWithInv, RemoteAddr: 1, RKey: 2, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_READ_LOCAL_INV, Raddr: 1, Rkey: 2, Sge: sges(1)}},
		{"signalled", uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_SIGNALLED, Opcode: abi.SIW_OP_SEND}},
		{"solicited", uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSolicited},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_SOLICITED, Opcode: abi.SIW_OP_SEND}},
		{"fenced", uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Flags: uverbs.SendFence},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_READ_FENCE, Opcode: abi.SIW_OP_WRITE}},
		{"all flags", uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendFence | uverbs.SendSignaled | uverbs.SendSolicited},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_READ_FENCE | abi.SIW_WQE_SIGNALLED | abi.SIW_WQE_SOLICITED, Opcode: abi.SIW_OP_SEND}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := connected(t)
			if n, err := w.qp.PostSend([]uverbs.SendWR{c.wr}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			got, ok := w.kqp.SIW.TakeSend()
			if !ok {
				t.Fatal("nothing was posted")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSignalAll(t *testing.T) {
	w := newWorld(t, func(o *uverbs.QPOptions) { o.SignalAll = true })
	w.kqp.Connect()
	if _, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend}}); err != nil {
		t.Fatal(err)
	}
	if e, _ := w.kqp.SIW.TakeSend(); e.Flags&abi.SIW_WQE_SIGNALLED == 0 {
		t.Errorf("flags %#x", e.Flags)
	}
}

// TestInline has the data stand from the second SGE on, for every length.
func TestInline(t *testing.T) {
	w := connected(t)
	data := []byte(strings.Repeat("0123456789", 8))
	for n := range abi.SIW_MAX_INLINE + 1 {
		if _, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpRDMAWrite, Inline: data[:n], RKey: 3}}); err != nil {
			t.Fatal(err)
		}
		e, ok := w.kqp.SIW.TakeSend()
		got := abi.Bytes(&e.Sge)[16:]
		if !ok || e.Flags != abi.SIW_WQE_VALID|abi.SIW_WQE_INLINE || e.Sge[0].Length != uint32(n) || e.Sge[0].Laddr != 0 || !bytes.Equal(got[:n], data[:n]) {
			t.Fatalf("%d bytes: %+v", n, e)
		}
	}
	if w.qp.Cap().MaxInline != abi.SIW_MAX_INLINE {
		t.Errorf("%+v", w.qp.Cap())
	}
}

func TestRefusedSends(t *testing.T) {
	long := make([]byte, abi.SIW_MAX_INLINE+1)
	for _, c := range []struct {
		name string
		wr   uverbs.SendWR
		want error
		text string
	}{
		{"immediate data", uverbs.SendWR{Opcode: uverbs.OpSendImm}, uverbs.ErrNotSupported, "siw has no SEND_WITH_IMM"},
		{"write with immediate", uverbs.SendWR{Opcode: uverbs.OpRDMAWriteImm}, uverbs.ErrNotSupported, "RDMA_WRITE_WITH_IMM"},
		{"atomic", uverbs.SendWR{Opcode: uverbs.OpFetchAdd}, uverbs.ErrNotSupported, "ATOMIC_FETCH_AND_ADD"},
		{"compare and swap", uverbs.SendWR{Opcode: uverbs.OpCompareSwap}, uverbs.ErrNotSupported, "ATOMIC_CMP_AND_SWP"},
		{"invalidate", uverbs.SendWR{Opcode: uverbs.OpLocalInv}, uverbs.ErrNotSupported, "LOCAL_INV"},
		{"bind", uverbs.SendWR{Opcode: uverbs.OpBindMW}, uverbs.ErrNotSupported, "BIND_MW"},
		{"unknown", uverbs.SendWR{Opcode: 99}, uverbs.ErrNotSupported, "Opcode(99)"},
		{"too many SGEs", uverbs.SendWR{Opcode: uverbs.OpSend, SGL: append(sgl, sgl[0])}, uverbs.ErrInvalidWR, "4 SGEs, the queue takes 3"},
		{"an SGE that can't be", uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: uverbs.BadLength}}}, uverbs.ErrInvalidWR, "SGE 0 has BadLength"},
		{"a long message", uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1 << 31}}}, uverbs.ErrInvalidWR, "2147483648 bytes in all, siw sends at most 2147483647"},
		{"a long read", uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: []uverbs.SGE{{Length: 1 << 31}}}, uverbs.ErrInvalidWR, "2147483648 bytes in all"},
		{"a long message of two", uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1<<31 - 1}, {Length: 1}}}, uverbs.ErrInvalidWR, "2147483648 bytes in all"},
		{"a second that can't be", uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{}, {Length: uverbs.BadLength}}}, uverbs.ErrInvalidWR, "SGE 1 has BadLength"},
		{"a read into one", uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: []uverbs.SGE{{Length: uverbs.BadLength}}}, uverbs.ErrInvalidWR, "SGE 0 has BadLength"},
		{"read into none", uverbs.SendWR{Opcode: uverbs.OpRDMARead}, uverbs.ErrInvalidWR, "exactly one SGE"},
		{"read into two", uverbs.SendWR{Opcode: uverbs.OpReadWithInv, SGL: sgl[:2]}, uverbs.ErrInvalidWR, "exactly one SGE"},
		{"inline read", uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: sgl[:1], Inline: []byte{1}}, uverbs.ErrInvalidWR, "exactly one SGE"},
		{"fenced read", uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: sgl[:1], Flags: uverbs.SendFence}, uverbs.ErrInvalidWR, "fence"},
		{"inline send with invalidate", uverbs.SendWR{Opcode: uverbs.OpSendWithInv, Inline: []byte{1}}, uverbs.ErrInvalidWR, "SEND and RDMA_WRITE only"},
		{"inline and SGL", uverbs.SendWR{Opcode: uverbs.OpSend, Inline: []byte{1}, SGL: sgl[:1]}, uverbs.ErrInvalidWR, "both"},
		{"too much inline", uverbs.SendWR{Opcode: uverbs.OpSend, Inline: long}, uverbs.ErrInvalidWR, "81 bytes inline, siw takes 80 (send more from registered memory, with SGL)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := connected(t)
			good := uverbs.SendWR{Opcode: uverbs.OpSend}
			n, err := w.qp.PostSend([]uverbs.SendWR{good, c.wr, good})
			if n != 1 || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "post a send to QP 1 on siw0") {
				t.Errorf("%d, %v", n, err)
			}
			if _, ok := w.kqp.SIW.TakeSend(); !ok {
				t.Error("the one before was not posted")
			}
			if _, ok := w.kqp.SIW.TakeSend(); ok {
				t.Error("more was posted")
			}
		})
	}
}

// TestSupports: what Supports tells is what PostSend does, of every small number and of
// large ones.
func TestSupports(t *testing.T) {
	takes := map[uverbs.Opcode]bool{uverbs.OpSend: true, uverbs.OpSendWithInv: true, uverbs.OpRDMAWrite: true, uverbs.OpRDMARead: true, uverbs.OpReadWithInv: true}
	w := connected(t)
	ops := []uverbs.Opcode{1 << 8, 1 << 31, 1<<32 - 1}
	for op := range uverbs.Opcode(0x40) {
		ops = append(ops, op)
	}
	for _, op := range ops {
		n, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: op, SGL: sgl[:1]}})
		if w.kqp.SIW.TakeSend(); (n == 1) != takes[op] || errors.Is(err, uverbs.ErrNotSupported) == takes[op] {
			t.Errorf("%v: %d, %v", op, n, err)
		}
		for _, typ := range []uverbs.QPType{0, uverbs.QPTypeRC, uverbs.QPTypeUC, uverbs.QPTypeUD, uverbs.QPTypeDriver} {
			if got := w.dev.Supports(typ, op); got != (takes[op] && typ == uverbs.QPTypeRC) {
				t.Errorf("Supports(%v, %v): %t", typ, op, got)
			}
		}
	}
}

func TestSendQueueFull(t *testing.T) {
	w := connected(t)
	wrs := make([]uverbs.SendWR, depth+1)
	for i := range wrs {
		wrs[i] = uverbs.SendWR{WRID: uint64(i), Opcode: uverbs.OpSend}
	}
	for range 3 { // around the ring
		if n, err := w.qp.PostSend(wrs); n != depth || !errors.Is(err, uverbs.ErrQueueFull) {
			t.Fatal(n, err)
		}
		for i := range depth {
			if e, ok := w.kqp.SIW.TakeSend(); !ok || e.Id != uint64(i) {
				t.Fatalf("entry %d: %+v", i, e)
			}
		}
	}
}

// TestDoorbell counts the system calls: none while the kernel is behind.
func TestDoorbell(t *testing.T) {
	w := connected(t)
	start := w.k.Calls("POST_SEND")
	rings := func() int { return w.k.Calls("POST_SEND") - start }
	post := func(n int) {
		t.Helper()
		if _, err := w.qp.PostSend(make([]uverbs.SendWR, n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ take, post, rings int }{
		{0, 2, 1}, // an idle queue: one doorbell a batch
		{1, 1, 1}, // the second of the batch still waits: none
		{2, 1, 2}, // all taken: one
		{1, depth, 3},
		{1, 1, 3},
		{0, 0, 3},
	} {
		for range step.take {
			w.kqp.SIW.TakeSend()
		}
		post(step.post)
		if rings() != step.rings {
			t.Errorf("%+v: %d doorbells", step, rings())
		}
	}
}

// TestDoorbellPath: doorbells are written; only a process whose credentials changed rings
// them by ioctl.
func TestDoorbellPath(t *testing.T) {
	for _, changed := range []bool{false, true} {
		w := connected(t)
		w.k.OtherCredentials = changed
		byIoctl := 0
		w.k.Tamper = func(call string, _ *ioctl.Request) {
			if call == "POST_SEND" {
				byIoctl++
			}
		}
		before := w.k.Calls("POST_SEND")
		for range 3 {
			if n, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			w.kqp.SIW.TakeSend()
		}
		if all := w.k.Calls("POST_SEND") - before; all != 3 || byIoctl != 0 && !changed || byIoctl != 3 && changed {
			t.Errorf("changed: %t, %d doorbells, %d by ioctl", changed, all, byIoctl)
		}
	}
}

func TestNotConnected(t *testing.T) {
	w := newWorld(t, nil)
	for range 2 {
		n, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend}})
		if n != 0 || !errors.Is(err, syscall.ENOTCONN) || !strings.Contains(err.Error(), "the QP is not connected") {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, ok := w.kqp.SIW.TakeSend(); ok {
		t.Error("an entry lies in wait for the connection")
	}
	w.kqp.Connect()
	if n, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend}}); n != 1 || err != nil {
		t.Errorf("connected: %d, %v", n, err)
	}
}
