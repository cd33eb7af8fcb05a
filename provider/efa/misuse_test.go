package efa

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRefusedSends checks that each request that the device can't carry out is refused, and those
// before it are sent.
func TestRefusedSends(t *testing.T) {
	w := newWorld(t, nil)
	sge := func(n int) []verbs.SGE { return make([]verbs.SGE, n) }
	for name, c := range map[string]struct {
		change func(*verbs.SendWR)
		want   error
	}{
		"no completion":      {func(wr *verbs.SendWR) { wr.Flags = 0 }, verbs.ErrInvalidWR},
		"fence":              {func(wr *verbs.SendWR) { wr.Flags |= verbs.SendFence }, verbs.ErrNotSupported},
		"solicited":          {func(wr *verbs.SendWR) { wr.Flags |= verbs.SendSolicited }, verbs.ErrNotSupported},
		"atomic":             {func(wr *verbs.SendWR) { wr.Opcode = verbs.OpFetchAdd }, verbs.ErrNotSupported},
		"unknown opcode":     {func(wr *verbs.SendWR) { wr.Opcode = 1 << 31 }, verbs.ErrNotSupported},
		"no AH":              {func(wr *verbs.SendWR) { wr.AH = nil }, verbs.ErrInvalidWR},
		"nil AH":             {func(wr *verbs.SendWR) { wr.AH = (*uverbs.AH)(nil) }, verbs.ErrInvalidWR},
		"QP of 17 bits":      {func(wr *verbs.SendWR) { wr.RemoteQPN = 1 << 16 }, verbs.ErrInvalidWR},
		"three SGEs":         {func(wr *verbs.SendWR) { wr.SGL = sge(3) }, verbs.ErrInvalidWR},
		"bad length":         {func(wr *verbs.SendWR) { wr.SGL[0].Length = verbs.BadLength }, verbs.ErrInvalidWR},
		"wide key":           {func(wr *verbs.SendWR) { wr.SGL[0].LKey = 1 << 24 }, verbs.ErrInvalidWR},
		"write of two SGEs":  {func(wr *verbs.SendWR) { wr.Opcode, wr.SGL = verbs.OpRDMAWrite, sge(2) }, verbs.ErrInvalidWR},
		"read of no SGE":     {func(wr *verbs.SendWR) { wr.Opcode, wr.SGL = verbs.OpRDMARead, nil }, verbs.ErrInvalidWR},
		"long inline":        {func(wr *verbs.SendWR) { wr.SGL, wr.Inline = nil, make([]byte, 33) }, verbs.ErrInvalidWR},
		"inline and SGL":     {func(wr *verbs.SendWR) { wr.Inline = make([]byte, 1) }, verbs.ErrInvalidWR},
		"inline read":        {func(wr *verbs.SendWR) { wr.Opcode, wr.SGL, wr.Inline = verbs.OpRDMARead, nil, make([]byte, 1) }, verbs.ErrInvalidWR},
		"short inline write": {func(wr *verbs.SendWR) { wr.Opcode, wr.SGL, wr.Inline = verbs.OpRDMAWrite, nil, make([]byte, 1) }, verbs.ErrNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			good, wr := w.send(1), w.send(2)
			c.change(&wr)
			if n, err := w.qp.PostSend([]verbs.SendWR{good, wr}); n != 1 || !errors.Is(err, c.want) {
				t.Errorf("%d, %v, want %v", n, err, c.want)
			}
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			w.one(t)
		})
	}
}

// TestRefusedReceives is the same for receives.
func TestRefusedReceives(t *testing.T) {
	w := newWorld(t, nil)
	for name, sgl := range map[string][]verbs.SGE{
		"no SGE": nil, "four SGEs": make([]verbs.SGE, 4), "wide key": {{LKey: 1 << 24}}, "bad length": {{Length: verbs.BadLength}},
	} {
		if n, err := w.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for i := range uint64(w.qp.Cap().MaxRecvWR) {
		w.postRecv(t, w.recv(i))
	}
	if n, err := w.qp.PostRecv([]verbs.RecvWR{w.recv(9)}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
}

// TestAbilities checks that the objects of a device support the operations of its capability bits, and return errors for the others.
func TestAbilities(t *testing.T) {
	for _, c := range []struct {
		no                uint32
		typ               verbs.QPType
		send, read, write bool
	}{
		{0, verbs.QPTypeSRD, true, true, true},
		{abi.EFA_QUERY_DEVICE_CAPS_RDMA_READ, verbs.QPTypeSRD, true, false, true},
		{abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE, verbs.QPTypeSRD, true, true, false},
		{0, verbs.QPTypeUD, true, false, false},
		{0, verbs.QPTypeRC, false, false, false},
	} {
		w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) { o.NoCaps = c.no })
		for op, want := range map[verbs.Opcode]bool{verbs.OpSend: c.send, verbs.OpSendImm: c.send, verbs.OpRDMARead: c.read,
			verbs.OpRDMAWrite: c.write, verbs.OpRDMAWriteImm: c.write, verbs.OpFetchAdd: false} {
			if got := w.dev.Supports(c.typ, op); got != want {
				t.Errorf("without %#x, %v has %v: %t", c.no, c.typ, op, got)
			}
		}
	}
	w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) {
		o.NoCaps = abi.EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID | abi.EFA_QUERY_DEVICE_CAPS_UNSOLICITED_WRITE_RECV | abi.EFA_QUERY_DEVICE_CAPS_DATA_POLLING_128
	})
	full := newWorld(t, nil)
	for _, o := range []*uverbs.QPOptions{
		{Type: verbs.QPTypeRC}, {Type: verbs.QPTypeDriver}, {Type: verbs.QPTypeSRD, Flags: verbs.QPUnsolicitedWriteRecv},
	} {
		o.SendCQ, o.RecvCQ = w.cq, w.cq
		if _, err := w.pd.CreateQP(o); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := full.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, Flags: verbs.QPUnsolicitedWriteRecv, SendCQ: full.cq, RecvCQ: full.cq}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	for dev, ext := range map[*uverbs.Device]verbs.WCExtMask{w.dev: verbs.WCExtSourceGID, full.dev: verbs.WCExtTimestamp} {
		if _, err := dev.CreateCQ(4, &uverbs.CQOptions{Ext: ext}); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%#x: %v", ext, err)
		}
	}
	if a, b := w.qp.DataOrder(verbs.OpRDMAWrite), full.qp.DataOrder(verbs.OpSend); a != 0 || b != 0 {
		t.Error(a, b)
	}
	a, err := full.dev.QueryDevice()
	if err != nil || a.MaxRDMASize != 1<<30 || a.MaxQPWR != 4096 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := full.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestNoEvents checks that a device without completion events has no CQs with channels.
func TestNoEvents(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) { o.attr.DeviceCaps &^= abi.EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS })
	if _, err := w.ctx.CreateCQ(createCQ(w, true)); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestSender checks that a completion has no address of its sender.
func TestSender(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.pd.AHFromWC(1, &verbs.WC{Opcode: verbs.WCRecv}, make([]byte, 40)); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "AH.Number") {
		t.Error(err)
	}
}
