package rxe

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// carried lists the opcodes that each type of QP takes.
var carried = map[verbs.QPType][]verbs.Opcode{
	verbs.QPTypeRC: {verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpRDMARead, verbs.OpCompareSwap,
		verbs.OpFetchAdd, verbs.OpLocalInv, verbs.OpBindMW, verbs.OpSendWithInv, verbs.OpFlush, verbs.OpAtomicWrite},
	verbs.QPTypeUC: {verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpBindMW},
	verbs.QPTypeUD: {verbs.OpSend, verbs.OpSendImm},
}

// TestOpcodes posts every small number, and large ones, as an opcode: only those that the
// kernel can carry out reach it.
func TestOpcodes(t *testing.T) {
	for typ, ops := range carried {
		w := ready(t, typ)
		takes := make(map[verbs.Opcode]bool)
		for _, op := range ops {
			takes[op] = true
		}
		odd := []verbs.Opcode{1 << 8, 1 << 16, 1 << 31, 1<<32 - 1}
		for op := range verbs.Opcode(0x40) {
			odd = append(odd, op)
		}
		for _, op := range odd {
			if w.dev.Supports(typ, op) != takes[op] {
				t.Errorf("Supports(%v, %v): %t", typ, op, !takes[op])
			}
			n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: op}})
			if refused := errors.Is(err, verbs.ErrNotSupported); refused == takes[op] || refused && n != 0 {
				t.Errorf("%v on %v: %d, %v", op, typ, n, err)
			}
			s, ok := fakerxe.QPOf(w.kqp).TakeSend()
			if ok && !takes[verbs.Opcode(s.Wr.Opcode)] {
				t.Errorf("the kernel got %v on %v", op, typ)
			}
		}
	}
}

// TestOlderKernel has no FLUSH and no ATOMIC_WRITE, or one type of flush.
func TestOlderKernel(t *testing.T) {
	on := func(caps uint64) *world {
		k := fakeverbs.New(uint32(verbs.DriverRXE))
		k.Tamper = func(call string, r *ioctl.Request) {
			if call == "QUERY_DEVICE" {
				ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsExQueryDeviceResp{DeviceCapFlagsEx: caps})
			}
		}
		w := newWorldOn(t, k, verbs.QPTypeRC, nil)
		w.connect(t)
		return w
	}
	flush := func(typ verbs.FlushType) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: typ}}
	}
	write := verbs.SendWR{Opcode: verbs.OpAtomicWrite, Inline: make([]byte, 8)}
	for _, c := range []struct {
		caps  uint64
		wr    verbs.SendWR
		wants string
	}{
		{0, flush(verbs.FlushGlobal), "this kernel's rxe does not support FLUSH"},
		{0, write, "this kernel's rxe does not support ATOMIC_WRITE"},
		{abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL, flush(verbs.FlushGlobal), ""},
		{abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL, flush(verbs.FlushGlobal | verbs.FlushPersistent), "does not support flush type 0x3"},
		{abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT, flush(verbs.FlushGlobal), "does not support flush type 0x1"},
		{abi.IB_UVERBS_DEVICE_ATOMIC_WRITE, write, ""},
	} {
		w := on(c.caps)
		_, err := w.qp.PostSend([]verbs.SendWR{c.wr})
		if opcodeIsThere := c.caps != 0; w.dev.Supports(verbs.QPTypeRC, c.wr.Opcode) != opcodeIsThere {
			t.Errorf("%#x: Supports(RC, %v): %t", c.caps, c.wr.Opcode, !opcodeIsThere)
		}
		if c.wants == "" && err != nil || c.wants != "" && (!errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%#x, %v: %v, want %q", c.caps, c.wr.Opcode, err, c.wants)
		}
	}
}

func TestRefusals(t *testing.T) {
	rc, ud := ready(t, verbs.QPTypeRC), ready(t, verbs.QPTypeUD)
	dead := providertest.Must[*uverbs.AH](t)(ud.pd.CreateAH(&verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := providertest.Must[*uverbs.PD](t)(ud.dev.AllocPD())
	strange := providertest.Must[*uverbs.AH](t)(foreign.CreateAH(&verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	t.Cleanup(func() { _ = errors.Join(strange.Close(), foreign.Close()) })
	eight := []verbs.SGE{{Length: 8}}
	huge := []verbs.SGE{{Length: 1 << 31}, {Length: 1}}
	for _, c := range []struct {
		w    *world
		wr   verbs.SendWR
		want string
	}{
		{rc, verbs.SendWR{Opcode: verbs.OpSend, Flags: 1 << 3}, "unknown flags 0x8"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, Flags: 1<<31 | verbs.SendSignaled}, "unknown flags 0x80000000"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, SGL: make([]verbs.SGE, 4)}, "4 SGEs, but the queue takes at most 3"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, SGL: huge}, "2147483649 bytes in all"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1<<32 - 2}, {Length: 1<<32 - 2}, {Length: 4}}}, "8589934592 bytes in all"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{}, {Length: verbs.BadLength}}}, "SGE 1 has BadLength"},
		{rc, verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{{Length: verbs.BadLength}}}, "SGE 0 has BadLength"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, 49)}, "49 bytes inline, but the QP takes at most 48 (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)"},
		{rc, verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, 1), SGL: eight}, "both SGL and Inline"},
		{rc, verbs.SendWR{Opcode: verbs.OpRDMARead, Inline: make([]byte, 1)}, "RDMA_READ takes no Inline"},
		{rc, verbs.SendWR{Opcode: verbs.OpLocalInv, Inline: make([]byte, 1)}, "LOCAL_INV takes no Inline"},
		{rc, verbs.SendWR{Opcode: verbs.OpLocalInv, SGL: eight}, "LOCAL_INV takes no SGL"},
		{rc, verbs.SendWR{Opcode: verbs.OpFlush, SGL: eight}, "FLUSH takes no SGL"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW}, "no window to bind"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{}}, "no window to bind"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: (*uverbs.MW)(nil)}}, "no window to bind"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: ud.mw}}, "must have the same PD"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: rc.mw, Length: 1}}, "a window of 1 bytes needs an MR"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: rc.mw}, SGL: eight}, "BIND_MW takes no SGL"},
		{rc, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: rc.mw, RKey: rc.mw.RKey() + 256}}, "is not a key of the window"},
		{rc, verbs.SendWR{Opcode: verbs.OpFetchAdd}, "takes 8 bytes, but SGL has 0"},
		{rc, verbs.SendWR{Opcode: verbs.OpCompareSwap, SGL: huge[1:]}, "takes 8 bytes, but SGL has 1"},
		{rc, verbs.SendWR{Opcode: verbs.OpAtomicWrite, Inline: make([]byte, 7)}, "ATOMIC_WRITE takes its 8 bytes from Inline"},
		{rc, verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: eight}, "ATOMIC_WRITE takes its 8 bytes from Inline"},
		{rc, verbs.SendWR{Opcode: verbs.OpFlush}, "unknown flush type 0x0"},
		{rc, verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: 5}}, "unknown flush type 0x5"},
		{rc, verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: 1, Level: 2}}, "unknown flush level 0x2"},
		{ud, verbs.SendWR{Opcode: verbs.OpSend}, "needs an open AH"},
		{ud, verbs.SendWR{Opcode: verbs.OpSend, AH: dead}, "needs an open AH"},
		{ud, verbs.SendWR{Opcode: verbs.OpSend, AH: strange}, "belong to different PDs"},
		{ud, verbs.SendWR{Opcode: verbs.OpSend, AH: ud.ah, SGL: []verbs.SGE{{Length: 4097}}}, "the largest MTU is 4096"},
	} {
		good := verbs.SendWR{Opcode: verbs.OpSend, AH: c.w.ah}
		n, err := c.w.qp.PostSend([]verbs.SendWR{good, c.wr, good})
		if n != 1 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %d, %v, want %q", c.wr.Opcode, n, err, c.want)
		}
		c.w.take(t)
		if _, ok := fakerxe.QPOf(c.w.kqp).TakeSend(); ok {
			t.Errorf("%v was sent: %q", c.wr.Opcode, c.want)
		}
	}
	for i := range sgl { // a message that is just short enough
		sgl := append([]verbs.SGE{}, huge...)
		sgl[i].Length--
		rc.post(t, verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
	}
}
