package siw

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var sgl = []verbs.SGE{{Addr: 0x1000, Length: 10, LKey: 0x101}, {Addr: 0x2000, Length: 20, LKey: 0x102}, {Addr: 0x3000, Length: 30, LKey: 0x103}}

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
		wr   verbs.SendWR
		want abi.SiwSqe
	}{
		{"send", verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, SGL: sgl[:2]},
			abi.SiwSqe{Id: 1, Flags: valid, NumSge: 2, Opcode: abi.SIW_OP_SEND, Sge: sges(2)}},
		{"send of nothing", verbs.SendWR{WRID: 1 << 63, Opcode: verbs.OpSend},
			abi.SiwSqe{Id: 1 << 63, Flags: valid, Opcode: abi.SIW_OP_SEND}},
		{"send with invalidate", verbs.SendWR{Opcode: verbs.OpSendWithInv, RKey: 5, InvalidateRKey: 6, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_SEND_REMOTE_INV, Rkey: 6, Sge: sges(1)}},
		{"write", verbs.SendWR{Opcode: verbs.OpRDMAWrite, RemoteAddr: 0xabc, RKey: 7, SGL: sgl[:3]},
			abi.SiwSqe{Flags: valid, NumSge: 3, Opcode: abi.SIW_OP_WRITE, Raddr: 0xabc, Rkey: 7, Sge: sges(3)}},
		{"read", verbs.SendWR{Opcode: verbs.OpRDMARead, RemoteAddr: 0xabc, RKey: 7, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_READ, Raddr: 0xabc, Rkey: 7, Sge: sges(1)}},
		{"read with invalidate", verbs.SendWR{Opcode: verbs.OpReadWithInv, RemoteAddr: 1, RKey: 2, SGL: sgl[:1]},
			abi.SiwSqe{Flags: valid, NumSge: 1, Opcode: abi.SIW_OP_READ_LOCAL_INV, Raddr: 1, Rkey: 2, Sge: sges(1)}},
		{"signalled", verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_SIGNALLED, Opcode: abi.SIW_OP_SEND}},
		{"solicited", verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_SOLICITED, Opcode: abi.SIW_OP_SEND}},
		{"fenced", verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendFence},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_READ_FENCE, Opcode: abi.SIW_OP_WRITE}},
		{"all flags", verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited},
			abi.SiwSqe{Flags: valid | abi.SIW_WQE_READ_FENCE | abi.SIW_WQE_SIGNALLED | abi.SIW_WQE_SOLICITED, Opcode: abi.SIW_OP_SEND}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := connected(t)
			if n, err := w.qp.PostSend([]verbs.SendWR{c.wr}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			got, ok := fakesiw.QPOf(w.kqp).TakeSend()
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
	w.kqp.Connect(16, 16)
	if _, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); err != nil {
		t.Fatal(err)
	}
	if e, _ := fakesiw.QPOf(w.kqp).TakeSend(); e.Flags&abi.SIW_WQE_SIGNALLED == 0 {
		t.Errorf("flags %#x", e.Flags)
	}
}

// TestInline checks, for every length, that inline data begins at the second SGE.
func TestInline(t *testing.T) {
	w := connected(t)
	data := []byte(strings.Repeat("0123456789", 8))
	for n := range abi.SIW_MAX_INLINE + 1 {
		if _, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Inline: data[:n], RKey: 3}}); err != nil {
			t.Fatal(err)
		}
		e, ok := fakesiw.QPOf(w.kqp).TakeSend()
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
		wr   verbs.SendWR
		want error
		text string
	}{
		{"immediate data", verbs.SendWR{Opcode: verbs.OpSendImm}, verbs.ErrNotSupported, "siw does not support SEND_WITH_IMM"},
		{"write with immediate", verbs.SendWR{Opcode: verbs.OpRDMAWriteImm}, verbs.ErrNotSupported, "RDMA_WRITE_WITH_IMM"},
		{"atomic", verbs.SendWR{Opcode: verbs.OpFetchAdd}, verbs.ErrNotSupported, "ATOMIC_FETCH_AND_ADD"},
		{"compare and swap", verbs.SendWR{Opcode: verbs.OpCompareSwap}, verbs.ErrNotSupported, "ATOMIC_CMP_AND_SWP"},
		{"invalidate", verbs.SendWR{Opcode: verbs.OpLocalInv}, verbs.ErrNotSupported, "LOCAL_INV"},
		{"bind", verbs.SendWR{Opcode: verbs.OpBindMW}, verbs.ErrNotSupported, "BIND_MW"},
		{"unknown", verbs.SendWR{Opcode: 99}, verbs.ErrNotSupported, "Opcode(99)"},
		{"too many SGEs", verbs.SendWR{Opcode: verbs.OpSend, SGL: append(sgl, sgl[0])}, verbs.ErrInvalidWR, "4 SGEs, but the queue takes at most 3"},
		{"an SGE that can't be", verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: verbs.BadLength}}}, verbs.ErrInvalidWR, "SGE 0 has BadLength"},
		{"a long message", verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1 << 31}}}, verbs.ErrInvalidWR, "2147483648 bytes in all, but siw sends at most 2147483647"},
		{"a long read", verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{{Length: 1 << 31}}}, verbs.ErrInvalidWR, "2147483648 bytes in all"},
		{"a long message of two", verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1<<31 - 1}, {Length: 1}}}, verbs.ErrInvalidWR, "2147483648 bytes in all"},
		{"a second that can't be", verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{}, {Length: verbs.BadLength}}}, verbs.ErrInvalidWR, "SGE 1 has BadLength"},
		{"a read into one", verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{{Length: verbs.BadLength}}}, verbs.ErrInvalidWR, "SGE 0 has BadLength"},
		{"read into none", verbs.SendWR{Opcode: verbs.OpRDMARead}, verbs.ErrInvalidWR, "exactly one SGE"},
		{"read into two", verbs.SendWR{Opcode: verbs.OpReadWithInv, SGL: sgl[:2]}, verbs.ErrInvalidWR, "exactly one SGE"},
		{"inline read", verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: sgl[:1], Inline: []byte{1}}, verbs.ErrInvalidWR, "exactly one SGE"},
		{"fenced read", verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: sgl[:1], Flags: verbs.SendFence}, verbs.ErrInvalidWR, "fence"},
		{"inline send with invalidate", verbs.SendWR{Opcode: verbs.OpSendWithInv, Inline: []byte{1}}, verbs.ErrInvalidWR, "SEND and RDMA_WRITE only"},
		{"inline and SGL", verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte{1}, SGL: sgl[:1]}, verbs.ErrInvalidWR, "both"},
		{"too much inline", verbs.SendWR{Opcode: verbs.OpSend, Inline: long}, verbs.ErrInvalidWR, "81 bytes inline, but siw takes at most 80 (send more from registered memory, with SGL)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := connected(t)
			good := verbs.SendWR{Opcode: verbs.OpSend}
			n, err := w.qp.PostSend([]verbs.SendWR{good, c.wr, good})
			if n != 1 || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "post a send to QP 1 on siw0") {
				t.Errorf("%d, %v", n, err)
			}
			if _, ok := fakesiw.QPOf(w.kqp).TakeSend(); !ok {
				t.Error("the one before was not posted")
			}
			if _, ok := fakesiw.QPOf(w.kqp).TakeSend(); ok {
				t.Error("more was posted")
			}
		})
	}
}

// TestSupports checks that Supports agrees with PostSend, for every small number and for
// large ones.
func TestSupports(t *testing.T) {
	takes := map[verbs.Opcode]bool{verbs.OpSend: true, verbs.OpSendWithInv: true, verbs.OpRDMAWrite: true, verbs.OpRDMARead: true, verbs.OpReadWithInv: true}
	w := connected(t)
	ops := []verbs.Opcode{1 << 8, 1 << 31, 1<<32 - 1}
	for op := range verbs.Opcode(0x40) {
		ops = append(ops, op)
	}
	for _, op := range ops {
		n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: op, SGL: sgl[:1]}})
		if fakesiw.QPOf(w.kqp).TakeSend(); (n == 1) != takes[op] || errors.Is(err, verbs.ErrNotSupported) == takes[op] {
			t.Errorf("%v: %d, %v", op, n, err)
		}
		for _, typ := range []verbs.QPType{0, verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeDriver} {
			if got := w.dev.Supports(typ, op); got != (takes[op] && typ == verbs.QPTypeRC) {
				t.Errorf("Supports(%v, %v): %t", typ, op, got)
			}
		}
	}
}

func TestSendQueueFull(t *testing.T) {
	w := connected(t)
	wrs := make([]verbs.SendWR, depth+1)
	for i := range wrs {
		wrs[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend}
	}
	for range 3 { // around the ring
		if n, err := w.qp.PostSend(wrs); n != depth || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatal(n, err)
		}
		for i := range depth {
			if e, ok := fakesiw.QPOf(w.kqp).TakeSend(); !ok || e.Id != uint64(i) {
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
		if _, err := w.qp.PostSend(make([]verbs.SendWR, n)); err != nil {
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
			fakesiw.QPOf(w.kqp).TakeSend()
		}
		post(step.post)
		if rings() != step.rings {
			t.Errorf("%+v: %d doorbells", step, rings())
		}
	}
}

// TestDoorbellPath checks that doorbells are written; only a process whose credentials changed rings
// them with an ioctl.
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
			if n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			fakesiw.QPOf(w.kqp).TakeSend()
		}
		if all := w.k.Calls("POST_SEND") - before; all != 3 || byIoctl != 0 && !changed || byIoctl != 3 && changed {
			t.Errorf("changed: %t, %d doorbells, %d by ioctl", changed, all, byIoctl)
		}
	}
}

func TestNotConnected(t *testing.T) {
	w := newWorld(t, nil)
	for range 2 {
		n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
		if n != 0 || !errors.Is(err, syscall.ENOTCONN) || !strings.Contains(err.Error(), "the QP is not connected") {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, ok := fakesiw.QPOf(w.kqp).TakeSend(); ok {
		t.Error("an entry lies in wait for the connection")
	}
	w.kqp.Connect(16, 16)
	if n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); n != 1 || err != nil {
		t.Errorf("connected: %d, %v", n, err)
	}
}
