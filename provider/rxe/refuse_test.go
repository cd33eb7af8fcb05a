package rxe

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
)

// carried is what each type of QP takes.
var carried = map[uverbs.QPType][]uverbs.Opcode{
	uverbs.QPTypeRC: {uverbs.OpRDMAWrite, uverbs.OpRDMAWriteImm, uverbs.OpSend, uverbs.OpSendImm, uverbs.OpRDMARead, uverbs.OpCompareSwap,
		uverbs.OpFetchAdd, uverbs.OpLocalInv, uverbs.OpBindMW, uverbs.OpSendWithInv, uverbs.OpFlush, uverbs.OpAtomicWrite},
	uverbs.QPTypeUC: {uverbs.OpRDMAWrite, uverbs.OpRDMAWriteImm, uverbs.OpSend, uverbs.OpSendImm, uverbs.OpBindMW},
	uverbs.QPTypeUD: {uverbs.OpSend, uverbs.OpSendImm},
}

// TestOpcodes offers every small number, and large ones, as an opcode: nothing
// that the kernel has no business with gets to it.
func TestOpcodes(t *testing.T) {
	for typ, ops := range carried {
		w := ready(t, typ)
		takes := make(map[uverbs.Opcode]bool)
		for _, op := range ops {
			takes[op] = true
		}
		odd := []uverbs.Opcode{1 << 8, 1 << 16, 1 << 31, 1<<32 - 1}
		for op := range uverbs.Opcode(0x40) {
			odd = append(odd, op)
		}
		for _, op := range odd {
			if w.dev.Supports(typ, op) != takes[op] {
				t.Errorf("Supports(%v, %v): %t", typ, op, !takes[op])
			}
			n, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: op}})
			if refused := errors.Is(err, uverbs.ErrNotSupported); refused == takes[op] || refused && n != 0 {
				t.Errorf("%v on %v: %d, %v", op, typ, n, err)
			}
			s, ok := w.kqp.RXE.TakeSend()
			if ok && !takes[uverbs.Opcode(s.Wr.Opcode)] {
				t.Errorf("the kernel got %v on %v", op, typ)
			}
		}
	}
}

// TestOlderKernel has no FLUSH and no ATOMIC_WRITE, or one type of flush.
func TestOlderKernel(t *testing.T) {
	on := func(caps uint64) *world {
		k := fakeverbs.New(uint32(uverbs.DriverRXE))
		k.Tamper = func(call string, r *ioctl.Request) {
			if call == "QUERY_DEVICE" {
				ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsExQueryDeviceResp{DeviceCapFlagsEx: caps})
			}
		}
		w := newWorldOn(t, k, uverbs.QPTypeRC, nil)
		w.connect(t)
		return w
	}
	flush := func(typ uverbs.FlushType) uverbs.SendWR {
		return uverbs.SendWR{Opcode: uverbs.OpFlush, Flush: uverbs.Flush{Type: typ}}
	}
	write := uverbs.SendWR{Opcode: uverbs.OpAtomicWrite, Inline: make([]byte, 8)}
	for _, c := range []struct {
		caps  uint64
		wr    uverbs.SendWR
		wants string
	}{
		{0, flush(uverbs.FlushGlobal), "this kernel's rxe has no FLUSH"},
		{0, write, "this kernel's rxe has no ATOMIC_WRITE"},
		{abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL, flush(uverbs.FlushGlobal), ""},
		{abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL, flush(uverbs.FlushGlobal | uverbs.FlushPersistent), "no flush of type 0x3"},
		{abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT, flush(uverbs.FlushGlobal), "no flush of type 0x1"},
		{abi.IB_UVERBS_DEVICE_ATOMIC_WRITE, write, ""},
	} {
		w := on(c.caps)
		_, err := w.qp.PostSend([]uverbs.SendWR{c.wr})
		if opcodeIsThere := c.caps != 0; w.dev.Supports(uverbs.QPTypeRC, c.wr.Opcode) != opcodeIsThere {
			t.Errorf("%#x: Supports(RC, %v): %t", c.caps, c.wr.Opcode, !opcodeIsThere)
		}
		if c.wants == "" && err != nil || c.wants != "" && (!errors.Is(err, uverbs.ErrNotSupported) || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%#x, %v: %v, want %q", c.caps, c.wr.Opcode, err, c.wants)
		}
	}
}

func TestRefusals(t *testing.T) {
	rc, ud := ready(t, uverbs.QPTypeRC), ready(t, uverbs.QPTypeUD)
	dead := must[*uverbs.AH](t)(ud.pd.CreateAH(&uverbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := must[*uverbs.PD](t)(ud.dev.AllocPD())
	strange := must[*uverbs.AH](t)(foreign.CreateAH(&uverbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	t.Cleanup(func() { _ = errors.Join(strange.Close(), foreign.Close()) })
	eight := []uverbs.SGE{{Length: 8}}
	huge := []uverbs.SGE{{Length: 1 << 31}, {Length: 1}}
	for _, c := range []struct {
		w    *world
		wr   uverbs.SendWR
		want string
	}{
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, Flags: 1 << 3}, "unknown flags 0x8"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, Flags: 1<<31 | uverbs.SendSignaled}, "unknown flags 0x80000000"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: make([]uverbs.SGE, 4)}, "4 SGEs, the queue takes 3"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: huge}, "2147483649 bytes in all"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1<<32 - 2}, {Length: 1<<32 - 2}, {Length: 4}}}, "8589934592 bytes in all"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{}, {Length: uverbs.BadLength}}}, "SGE 1 has BadLength"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: []uverbs.SGE{{Length: uverbs.BadLength}}}, "SGE 0 has BadLength"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, Inline: make([]byte, 49)}, "49 bytes inline, the QP takes 48 (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpSend, Inline: make([]byte, 1), SGL: eight}, "both SGL and Inline"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpRDMARead, Inline: make([]byte, 1)}, "RDMA_READ takes no Inline"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpLocalInv, Inline: make([]byte, 1)}, "LOCAL_INV takes no Inline"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpLocalInv, SGL: eight}, "LOCAL_INV takes no SGL"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpFlush, SGL: eight}, "FLUSH takes no SGL"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW}, "no window to bind"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{}}, "no window to bind"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: (*uverbs.MW)(nil)}}, "no window to bind"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: ud.mw}}, "must be of one PD"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: rc.mw, Length: 1}}, "a window of 1 bytes needs an MR"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: rc.mw}, SGL: eight}, "BIND_MW takes no SGL"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: rc.mw, RKey: rc.mw.RKey() + 256}}, "is no key of the window"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpFetchAdd}, "takes 8 bytes, SGL names 0"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpCompareSwap, SGL: huge[1:]}, "takes 8 bytes, SGL names 1"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpAtomicWrite, Inline: make([]byte, 7)}, "ATOMIC_WRITE takes its 8 bytes from Inline"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpAtomicWrite, SGL: eight}, "ATOMIC_WRITE takes its 8 bytes from Inline"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpFlush}, "unknown type of flush 0x0"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpFlush, Flush: uverbs.Flush{Type: 5}}, "unknown type of flush 0x5"},
		{rc, uverbs.SendWR{Opcode: uverbs.OpFlush, Flush: uverbs.Flush{Type: 1, Level: 2}}, "unknown level of flush 0x2"},
		{ud, uverbs.SendWR{Opcode: uverbs.OpSend}, "sends to an AH, and there is none"},
		{ud, uverbs.SendWR{Opcode: uverbs.OpSend, AH: dead}, "the AH is closed"},
		{ud, uverbs.SendWR{Opcode: uverbs.OpSend, AH: strange}, "belong to different PDs"},
		{ud, uverbs.SendWR{Opcode: uverbs.OpSend, AH: ud.ah, SGL: []uverbs.SGE{{Length: 4097}}}, "no port's MTU is above 4096"},
	} {
		good := uverbs.SendWR{Opcode: uverbs.OpSend, AH: c.w.ah}
		n, err := c.w.qp.PostSend([]uverbs.SendWR{good, c.wr, good})
		if n != 1 || !errors.Is(err, uverbs.ErrInvalidWR) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %d, %v, want %q", c.wr.Opcode, n, err, c.want)
		}
		c.w.take(t)
		if _, ok := c.w.kqp.RXE.TakeSend(); ok {
			t.Errorf("%v was sent: %q", c.wr.Opcode, c.want)
		}
	}
	for i := range sgl { // a message that is just short enough
		sgl := append([]uverbs.SGE{}, huge...)
		sgl[i].Length--
		rc.post(t, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sgl})
	}
}
