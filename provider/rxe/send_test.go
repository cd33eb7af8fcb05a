package rxe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

var sgl = []verbs.SGE{{Addr: 0x1111111111111111, Length: 0x100, LKey: 0x22222222}, {Addr: 0x3333333333333333, Length: 0x23, LKey: 0x44444444}}

// at is a value at an offset of struct rxe_send_wqe.
type at struct {
	offset, size int
	value        uint64
}

func image(parts []at) []byte {
	b := make([]byte, sendWQESize)
	for _, p := range parts {
		copy(b[p.offset:], binary.LittleEndian.AppendUint64(nil, p.value)[:p.size])
	}
	return b
}

const signaled = 2 // IB_SEND_SIGNALED

// sends holds each opcode with all its fields, and the bytes that the kernel must find;
// offsets and numbers are those of the C headers.
func sends(w *world) []struct {
	wr   verbs.SendWR
	want []at
} {
	const remote, rkey = 0x5555555555555558, 0x66666666
	wr := verbs.SendWR{WRID: 0x7777777777777777, Flags: verbs.SendSignaled, SGL: sgl, RemoteAddr: remote, RKey: rkey,
		Imm: 0x01020304, InvalidateRKey: 0x07890abc, CompareAdd: 0x99, Swap: 0xaa}
	with := func(op verbs.Opcode, change func(*verbs.SendWR)) verbs.SendWR {
		c := wr
		c.Opcode = op
		if change != nil {
			change(&c)
		}
		return c
	}
	all := func(op uint64, length, sges uint64, rest ...at) []at {
		return append(rest, at{0, 8, wr.WRID}, at{12, 4, op}, at{184, 4, length}, at{188, 4, length}, at{196, 4, sges})
	}
	flags := at{16, 4, signaled}
	imm, inv := at{20, 4, 0x04030201}, at{20, 4, 0x07890abc}
	to, key, iova := at{24, 8, remote}, at{32, 4, rkey}, at{152, 8, remote}
	eight := func(c *verbs.SendWR) { c.SGL = []verbs.SGE{{Addr: 1, Length: 8, LKey: 2}} }
	nothing := func(c *verbs.SendWR) { c.SGL = nil }
	type list = []struct {
		wr   verbs.SendWR
		want []at
	}
	if w.qp.Type() == verbs.QPTypeUD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = w.ah, 0xbbbbbb, 0xcccccccc
		ud := []at{flags, {24, 4, 0xbbbbbb}, {28, 4, 0xcccccccc}, {36, 4, 1}}
		return list{
			{with(verbs.OpSend, nil), all(2, 0x123, 2, ud...)},
			{with(verbs.OpSendImm, nil), all(3, 0x123, 2, append(ud, imm)...)},
		}
	}
	window := w.mw.RKey() &^ 0xff
	l := list{
		{with(verbs.OpRDMAWrite, nil), all(0, 0x123, 2, flags, to, key, iova)},
		{with(verbs.OpRDMAWriteImm, nil), all(1, 0x123, 2, flags, to, key, iova, imm)},
		{with(verbs.OpSend, nil), all(2, 0x123, 2, flags)},
		{with(verbs.OpSend, func(c *verbs.SendWR) { c.SGL, c.Inline = nil, []byte("inline") }), all(2, 6, 0, at{16, 4, signaled | 8})},
		{with(verbs.OpSend, func(c *verbs.SendWR) { c.SGL, c.Inline = nil, []byte{} }), all(2, 0, 0, at{16, 4, signaled | 8})},
		{with(verbs.OpRDMAWrite, func(c *verbs.SendWR) { c.SGL, c.Inline = nil, bytes.Repeat([]byte("x"), 48) }), all(0, 48, 0, at{16, 4, signaled | 8}, to, key, iova)},
		{with(verbs.OpSend, func(c *verbs.SendWR) { c.Flags = verbs.SendFence | verbs.SendSolicited }), all(2, 0x123, 2, at{16, 4, 1 | 4})},
		{with(verbs.OpSendImm, nil), all(3, 0x123, 2, flags, imm)},
		{with(verbs.OpBindMW, func(c *verbs.SendWR) {
			nothing(c)
			c.Bind = &verbs.BindMW{MW: w.mw, RKey: window | 0xdd, MR: w.mr, Addr: 0xee, Length: 0xff, Access: 2}
		}), all(8, 0, 0, flags, at{24, 8, 0xee}, at{32, 8, 0xff}, at{40, 4, uint64(w.mr.LKey())}, at{44, 4, uint64(w.mw.RKey())}, at{48, 4, uint64(window | 0xdd)}, at{52, 4, 2})},
		{with(verbs.OpBindMW, func(c *verbs.SendWR) { nothing(c); c.Bind = &verbs.BindMW{MW: w.mw, RKey: window | 0xde} }),
			all(8, 0, 0, flags, at{44, 4, uint64(window | 0xdd)}, at{48, 4, uint64(window | 0xde)})},
	}
	if w.qp.Type() == verbs.QPTypeUC {
		return l
	}
	key48 := at{48, 4, rkey}
	return append(l, list{
		{with(verbs.OpRDMARead, nil), all(4, 0x123, 2, flags, to, key, iova)},
		{with(verbs.OpRDMARead, nothing), all(4, 0, 0, flags, to, key, iova)},
		{with(verbs.OpCompareSwap, eight), all(5, 8, 1, flags, to, iova, at{32, 8, 0x99}, at{40, 8, 0xaa}, key48)},
		{with(verbs.OpFetchAdd, eight), all(6, 8, 1, flags, to, iova, at{32, 8, 0x99}, at{40, 8, 0xaa}, key48)},
		{with(verbs.OpLocalInv, nothing), all(7, 0, 0, flags, inv)},
		{with(verbs.OpSendWithInv, nil), all(9, 0x123, 2, flags, inv)},
		{with(verbs.OpSendWithInv, func(c *verbs.SendWR) { c.InvalidateRKey = 0x87890abc }), all(9, 0x123, 2, flags, at{20, 4, 0x87890abc})}, // a window of the peer's
		{with(verbs.OpFlush, func(c *verbs.SendWR) {
			nothing(c)
			c.Flush = verbs.Flush{Length: 0x77, Type: verbs.FlushGlobal | verbs.FlushPersistent, Level: verbs.FlushMR}
		}), all(14, 0x77, 0, flags, to, iova, at{32, 4, 0x77}, at{36, 4, rkey}, at{40, 1, 3}, at{41, 1, 1})},
		{with(verbs.OpAtomicWrite, func(c *verbs.SendWR) { c.SGL, c.Inline = nil, []byte("12345678") }), all(15, 8, 0, flags, to, key, iova)},
	}...)
}

const unionStart, unionEnd = 24, 144

// armSize returns how much of the union the kernel reads, which depends on the opcode alone
// (init_req_packet, get_av and the requester's local operations).
func armSize(typ verbs.QPType, op verbs.Opcode) int {
	switch {
	case typ == verbs.QPTypeUD:
		return unionEnd - unionStart
	case op == verbs.OpSend, op == verbs.OpSendImm, op == verbs.OpSendWithInv, op == verbs.OpLocalInv:
		return 0
	case op == verbs.OpCompareSwap, op == verbs.OpFetchAdd, op == verbs.OpBindMW:
		return 32
	case op == verbs.OpFlush:
		return 24
	}
	return 16
}

// TestEntries compares every byte that the kernel reads of an entry of each opcode, in
// slots that held something else before.
func TestEntries(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD} {
		t.Run(typ.String(), func(t *testing.T) {
			w := ready(t, typ)
			for range 2 * (depth + 1) {
				w.post(t, verbs.SendWR{Opcode: verbs.OpSend, WRID: 1<<64 - 1, SGL: sgl, Imm: 1<<32 - 1, AH: w.ah, RemoteQPN: 1<<32 - 1, RemoteQKey: 1<<32 - 1})
				w.take(t)
			}
			for i, c := range sends(w) {
				w.post(t, c.wr)
				s := w.take(t)
				got := abi.Bytes(&s.RxeSendWqe)
				clear(got[unionStart+armSize(typ, c.wr.Opcode) : unionEnd])
				if diff := cmp.Diff(image(c.want), got); diff != "" {
					t.Errorf("%d, %v: (-want +got)\n%s", i, c.wr.Opcode, diff)
				}
				checkPayload(t, &c.wr, &s)
			}
		})
	}
}

func checkPayload(t *testing.T, wr *verbs.SendWR, s *fakerxe.Send) {
	t.Helper()
	if !bytes.Equal(s.Payload[:len(wr.Inline)], wr.Inline) {
		t.Errorf("%v: inline %q", wr.Opcode, s.Payload[:len(wr.Inline)])
	}
	for i, sge := range wr.SGL {
		want := binary.LittleEndian.AppendUint64(nil, sge.Addr)
		want = binary.LittleEndian.AppendUint32(want, sge.Length)
		want = binary.LittleEndian.AppendUint32(want, sge.LKey)
		if got := s.Payload[16*i:][:16]; !bytes.Equal(got, want) {
			t.Errorf("%v: SGE %d is %x, want %x", wr.Opcode, i, got, want)
		}
	}
}

// TestWindowKey follows a window's key through bindings in one batch.
func TestWindowKey(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	first := w.mw.RKey()
	bind := func(key uint32) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: w.mw, RKey: key, MR: w.mr, Length: 1}}
	}
	w.post(t, bind(first+1), bind(first+2))
	for i := range uint32(2) {
		s := w.take(t)
		if mw := fakerxe.WR[abi.RxeSendWrMw](&s); mw.MwRkey != first+i || mw.Rkey != first+i+1 {
			t.Errorf("from %#x to %#x", mw.MwRkey, mw.Rkey)
		}
	}
	if w.mw.RKey() != first+2 {
		t.Errorf("%#x", w.mw.RKey())
	}
}

// TestSendQueueFull fills the queue from every position, and checks that slots are free
// once the kernel has taken their sends: nothing else reports an unsignaled send. A batch
// rings once.
func TestSendQueueFull(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	var next, want uint64
	for range 3 * (depth + 1) {
		wrs := make([]verbs.SendWR, depth+2)
		for i := range wrs {
			wrs[i] = verbs.SendWR{WRID: next + uint64(i), Opcode: verbs.OpSend}
		}
		rings := w.k.Calls("POST_SEND")
		if n, err := w.qp.PostSend(wrs); n != depth || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("%d, %v", n, err)
		}
		if n, err := w.qp.PostSend(wrs[:1]); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("%d, %v", n, err)
		}
		if n := w.k.Calls("POST_SEND") - rings; n != 1 {
			t.Errorf("%d doorbells", n)
		}
		next += depth
		for ; want < next; want++ {
			if s := w.take(t); s.Wr.WrId != want {
				t.Errorf("%d, want %d", s.Wr.WrId, want)
			}
		}
		w.post(t, verbs.SendWR{WRID: next, Opcode: verbs.OpSend}) // moves on by one
		next++
		if s := w.take(t); s.Wr.WrId != want {
			t.Errorf("%d, want %d", s.Wr.WrId, want)
		}
		want++
	}
}

// TestDoorbellPath checks that doorbells and arming are written; only a process whose credentials
// changed uses ioctls.
func TestDoorbellPath(t *testing.T) {
	for _, changed := range []bool{false, true} {
		w := ready(t, verbs.QPTypeRC)
		w.k.OtherCredentials = changed
		byIoctl := make(map[string]int)
		w.k.Tamper = func(call string, _ *ioctl.Request) { byIoctl[call]++ }
		for range 3 {
			w.post(t, verbs.SendWR{Opcode: verbs.OpSend})
			w.take(t)
			if err := w.cq.Arm(false); err != nil || !w.kcq.Armed() {
				t.Error(err)
			}
		}
		for _, call := range []string{"POST_SEND", "REQ_NOTIFY_CQ"} {
			if n := byIoctl[call]; w.k.Calls(call) != 3 || n != 0 && !changed || n != 3 && changed {
				t.Errorf("changed: %t, %s: %d, %d by ioctl", changed, call, w.k.Calls(call), n)
			}
		}
	}
}

// TestDoorbellFails checks that a post whose doorbell fails reports how many requests are
// queued, and that the next post rings again.
func TestDoorbellFails(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	good, bad := verbs.SendWR{Opcode: verbs.OpRDMAWrite}, verbs.SendWR{Opcode: 99}
	rings := func() int { return w.k.Calls("POST_SEND") }
	for _, step := range []struct {
		name  string
		wrs   []verbs.SendWR
		fails bool // the doorbell
		n     int
		also  error
		rings int
	}{
		{"all are queued, the doorbell fails", []verbs.SendWR{good}, true, 1, nil, 1},
		{"some are queued, the doorbell fails", []verbs.SendWR{good, bad}, true, 1, verbs.ErrNotSupported, 1},
		{"an empty post rings, and fails again", nil, true, 0, nil, 1},
		{"an empty post rings", nil, false, 0, nil, 1},
		{"there is nothing left to ring for", nil, false, 0, nil, 0},
		{"the last that fits", []verbs.SendWR{good}, true, 1, nil, 1},
		{"a full queue", []verbs.SendWR{good}, true, 0, verbs.ErrQueueFull, 1},
		{"a full queue that rings again", []verbs.SendWR{good}, false, 0, verbs.ErrQueueFull, 1},
		{"a full queue that has rung", []verbs.SendWR{good}, false, 0, verbs.ErrQueueFull, 0},
	} {
		if step.fails {
			w.k.Fail("POST_SEND", 0, errGone)
		}
		before := rings()
		n, err := w.qp.PostSend(step.wrs)
		if n != step.n || rings()-before != step.rings || errors.Is(err, errGone) != step.fails ||
			step.also != nil && !errors.Is(err, step.also) || (err == nil) != (!step.fails && step.also == nil) {
			t.Errorf("%s: %d, %v, %d doorbells", step.name, n, err, rings()-before)
		}
	}
	for i := range depth {
		if _, ok := fakerxe.QPOf(w.kqp).TakeSend(); !ok {
			t.Errorf("only %d are queued", i)
		}
	}
}

var errGone = fmt.Errorf("the device is gone")
