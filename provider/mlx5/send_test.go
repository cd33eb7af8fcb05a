package mlx5

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/uverbs/driver"
)

func sges(n int) (sgl []uverbs.SGE) {
	for i := range n {
		sgl = append(sgl, uverbs.SGE{Addr: 0x1122334455660000 + uint64(i), Length: uint32(100 + i), LKey: 0xa1b2c300 + uint32(i)})
	}
	return sgl
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

const (
	raddr = 0xf1e2d3c4b5a69788
	rkey  = 0x01020304
	imm   = 0x05060708
	inv   = 0x090a0b0c
)

type formTest struct {
	wr   uverbs.SendWR
	want fakeverbs.Work
}

// forms are one of each form, with what the device must find in it. most is how much
// inline data there may be.
func forms(types uint8, most int) map[string]formTest {
	all := make(map[string]formTest)
	add := func(name string, wr uverbs.SendWR, want fakeverbs.Work) {
		for _, s := range wr.SGL {
			if s.Length > 0 {
				want.SGL = append(want.SGL, fakeverbs.SGE(s))
			}
		}
		if want.Inline = wr.Inline; len(wr.Inline) > 0 {
			want.Flags |= abi.IB_SEND_INLINE
		}
		if int(wr.Opcode) >= len(operations) || operations[wr.Opcode].types&types != 0 {
			all[name] = formTest{wr, want}
		}
	}
	payloads := map[string]uverbs.SendWR{"an empty SGE between": {SGL: []uverbs.SGE{sges(1)[0], {Addr: 7}, sges(2)[1]}}}
	for n := range maxSGE + 1 {
		payloads[fmt.Sprint(n, " SGEs")] = uverbs.SendWR{SGL: sges(n)}
	}
	for _, n := range []int{0, 1, 11, 12, 13, 28, 29, 44, 60, 61, 76, 92, 108, 124, 140} {
		if n <= most {
			payloads[fmt.Sprint(n, " bytes inline")] = uverbs.SendWR{Inline: data(n)}
		}
	}
	for what, wr := range payloads {
		wr.RemoteAddr, wr.RKey, wr.Imm, wr.InvalidateRKey = raddr, rkey, imm, inv
		for op, want := range map[uverbs.Opcode]fakeverbs.Work{
			uverbs.OpSend:         {Opcode: abi.IB_UVERBS_WR_SEND},
			uverbs.OpSendImm:      {Opcode: abi.IB_UVERBS_WR_SEND_WITH_IMM, Imm: be32(imm)},
			uverbs.OpSendWithInv:  {Opcode: abi.IB_UVERBS_WR_SEND_WITH_INV, Imm: inv},
			uverbs.OpRDMAWrite:    {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE, RemoteAddr: raddr, RKey: rkey},
			uverbs.OpRDMAWriteImm: {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, RemoteAddr: raddr, RKey: rkey, Imm: be32(imm)},
			uverbs.OpRDMARead:     {Opcode: abi.IB_UVERBS_WR_RDMA_READ, RemoteAddr: raddr, RKey: rkey},
		} {
			if wr.Opcode = op; op != uverbs.OpRDMARead || wr.Inline == nil {
				add(fmt.Sprint(op, " of ", what), wr, want)
			}
		}
	}
	eight := []uverbs.SGE{{Addr: 0x1122334455667788, Length: 8, LKey: 0xa1b2c3d4}}
	base := uverbs.SendWR{RemoteAddr: raddr, RKey: rkey, Imm: imm, InvalidateRKey: inv, CompareAdd: 0x1112131415161718, Swap: 0x2122232425262728, SGL: eight}
	for op, want := range map[uverbs.Opcode]fakeverbs.Work{
		uverbs.OpCompareSwap: {Opcode: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd, Swap: base.Swap},
		uverbs.OpFetchAdd:    {Opcode: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd},
	} {
		wr := base
		wr.Opcode = op
		add(op.String(), wr, want)
	}
	add("LOCAL_INV", uverbs.SendWR{Opcode: uverbs.OpLocalInv, InvalidateRKey: inv}, fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_LOCAL_INV, Imm: inv})
	return all
}

var flagForms = map[uverbs.SendFlags]uint32{
	0: 0, uverbs.SendSignaled: abi.IB_SEND_SIGNALED, uverbs.SendFence: abi.IB_SEND_FENCE, uverbs.SendSolicited: abi.IB_SEND_SOLICITED,
	uverbs.SendSignaled | uverbs.SendFence | uverbs.SendSolicited: abi.IB_SEND_SIGNALED | abi.IB_SEND_FENCE | abi.IB_SEND_SOLICITED,
}

// devices are all ways in which a context's registers and completions may be.
var devices = map[string]fakeverbs.MLX5Options{
	"dynamic UARs":               {},
	"dynamic UARs, no BlueFlame": {NoBlueFlame: true},
	"dynamic UARs, no WC":        {NoWC: true},
	"high UAR numbers":           {FirstUAR: 1 << 16},
	"static UARs":                {StaticUARs: true},
	"static UARs, no BlueFlame":  {StaticUARs: true, NoBlueFlame: true},
	"completions of version 0":   {CQEVersion0: true},
	"an old kernel":              {Request: 24},
	"an older kernel":            {Request: 16},
	"InfiniBand":                 {Infiniband: true},
}

// TestSend has the device find each form of request, with each set of flags, wherever in
// the queue it begins, alone and in lists.
func TestSend(t *testing.T) {
	for name, options := range devices {
		for typ, bit := range map[uverbs.QPType]uint8{uverbs.QPTypeRC: typeRC, uverbs.QPTypeUC: typeUC} {
			t.Run(fmt.Sprint(name, ", ", typ), func(t *testing.T) {
				w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
					k.MLX5, o.Type, o.Cap.MaxInline = options, typ, 140
				})
				id, list := uint64(1), 0
				for name, f := range forms(bit, 140) {
					for flags, kernelFlags := range flagForms {
						f.wr.WRID, f.wr.Flags = id, flags
						want := f.want
						want.Flags |= kernelFlags
						list = list%3 + 1
						w.sendAndCompare(t, name, f.wr, &want, list)
						id++
					}
				}
			})
		}
	}
}

// sendAndCompare posts a request n times at once. The last of them always completes.
func (w *world) sendAndCompare(t *testing.T, name string, wr uverbs.SendWR, want *fakeverbs.Work, n int) {
	t.Helper()
	wrs := make([]uverbs.SendWR, n)
	for i := range wrs {
		wrs[i] = wr
	}
	wrs[n-1].Flags |= uverbs.SendSignaled
	w.post(t, wrs...)
	owed := 0
	for i := range n {
		got, expect := w.take(t), *want
		if wrs[i].Flags&uverbs.SendSignaled != 0 {
			expect.Flags |= abi.IB_SEND_SIGNALED
			owed++
		}
		if !sameWork(&expect, got) {
			t.Errorf("%s, %v: %+v, want %+v", name, wr.Flags, got, &expect)
		}
		w.kqp.Sent(got, abi.IB_WC_SUCCESS)
	}
	wcs := w.poll(t)
	if len(wcs) != owed {
		t.Fatalf("%s: %d completions of %d", name, len(wcs), owed)
	}
	for _, wc := range wcs {
		if wc.WRID != wr.WRID || wc.Status != uverbs.StatusSuccess || wc.QPN != w.qp.Num() || wc.Opcode != operations[wr.Opcode].wc {
			t.Errorf("%s: %+v", name, wc)
		}
		if bytes := map[uverbs.Opcode]uint32{uverbs.OpRDMARead: want.Len(), uverbs.OpFetchAdd: 8, uverbs.OpCompareSwap: 8}[wr.Opcode]; wc.ByteLen != bytes {
			t.Errorf("%s: %d bytes of %d", name, wc.ByteLen, bytes)
		}
	}
}

func sameWork(a, b *fakeverbs.Work) bool {
	return a.Opcode == b.Opcode && a.Flags == b.Flags && bytes.Equal(a.Inline, b.Inline) && slices.Equal(a.SGL, b.SGL) &&
		a.RemoteAddr == b.RemoteAddr && a.RKey == b.RKey && a.Imm == b.Imm && a.Compare == b.Compare && a.Swap == b.Swap &&
		a.To == b.To && a.Bind == b.Bind
}

// TestSignalAll has the QP ask for the completion of each send.
func TestSignalAll(t *testing.T) {
	w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.SignalAll = true })
	w.post(t, uverbs.SendWR{WRID: 7, Opcode: uverbs.OpSend})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 7 {
		t.Errorf("%+v", wc)
	}
}

// TestSendRoom fills the queue, again and again: it takes as many sends as the QP says,
// whatever their sizes.
func TestSendRoom(t *testing.T) {
	for _, inline := range []int{1, 50, 100, 150} {
		w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.Cap.MaxInline = 150 })
		wr := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, Inline: data(inline)}
		for range 5 {
			n := 0
			for ; ; n++ {
				wr.WRID = uint64(n)
				if _, err := w.qp.PostSend([]uverbs.SendWR{wr}); err != nil {
					if !errors.Is(err, uverbs.ErrQueueFull) {
						t.Fatal(err)
					}
					break
				}
			}
			if n != int(w.qp.Cap().MaxSendWR) {
				t.Errorf("%d sends have room of %d", n, w.qp.Cap().MaxSendWR)
			}
			for i := range n {
				w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
				if i%2 == 1 || i == n-1 {
					wcs := w.poll(t)
					if wc := wcs[len(wcs)-1]; wc.WRID != uint64(i) {
						t.Errorf("%+v, want %d", wc, i)
					}
				}
			}
		}
	}
}

// TestSendBatch: a batch is told with one store, and ends at what is refused. A request
// alone is copied, if it is short.
func TestSendBatch(t *testing.T) {
	var stores []int
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores = append(stores, c.Size)
			}
		}
	})
	good := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: sges(1)}
	long := uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Flags: uverbs.SendSignaled, SGL: sges(6)}
	empty := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled}
	bad := uverbs.SendWR{Opcode: uverbs.OpFlush}
	for _, c := range []struct {
		wrs  []uverbs.SendWR
		n    int
		err  error
		want []int
	}{
		{[]uverbs.SendWR{good, good, good, bad, good}, 3, uverbs.ErrNotSupported, []int{8}},
		{[]uverbs.SendWR{bad}, 0, uverbs.ErrNotSupported, nil},
		{nil, 0, nil, nil},
		{[]uverbs.SendWR{good}, 1, nil, []int{64}},
		{[]uverbs.SendWR{long}, 1, nil, []int{64, 64}},
		{[]uverbs.SendWR{empty}, 1, nil, []int{8}},
		{[]uverbs.SendWR{good, bad}, 1, uverbs.ErrNotSupported, []int{64}},
	} {
		stores = nil
		if n, err := w.qp.PostSend(c.wrs); n != c.n || !errors.Is(err, c.err) || !cmp.Equal(stores, c.want, cmpopts.EquateEmpty()) {
			t.Error(n, err, stores, "want", c.n, c.err, c.want)
		}
		for range c.n {
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		}
		if wcs := w.poll(t); len(wcs) != c.n {
			t.Errorf("%+v", wcs)
		}
	}
}

// TestRefuses posts what the device would end the connection for, or misread.
func TestRefuses(t *testing.T) {
	w := newWorld(t, nil)
	eight := []uverbs.SGE{{Length: 8}}
	for name, c := range map[string]struct {
		wr   uverbs.SendWR
		want error
	}{
		"unknown opcode":   {uverbs.SendWR{Opcode: 99}, uverbs.ErrNotSupported},
		"flush":            {uverbs.SendWR{Opcode: uverbs.OpFlush}, uverbs.ErrNotSupported},
		"no window":        {uverbs.SendWR{Opcode: uverbs.OpBindMW}, uverbs.ErrInvalidWR},
		"unknown flag":     {uverbs.SendWR{Opcode: uverbs.OpSend, Flags: 8}, uverbs.ErrInvalidWR},
		"too many SGEs":    {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sges(maxSGE + 1)}, uverbs.ErrInvalidWR},
		"bad length":       {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: driver.BadLength}}}, uverbs.ErrInvalidWR},
		"2 GiB":            {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1 << 31}}}, uverbs.ErrInvalidWR},
		"2 GiB in all":     {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1 << 30}, {Length: 1 << 30}}}, uverbs.ErrInvalidWR},
		"both":             {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sges(1), Inline: data(1)}, uverbs.ErrInvalidWR},
		"much inline":      {uverbs.SendWR{Opcode: uverbs.OpSend, Inline: data(int(w.qp.Cap().MaxInline) + 1)}, uverbs.ErrInvalidWR},
		"read inline":      {uverbs.SendWR{Opcode: uverbs.OpRDMARead, Inline: data(1)}, uverbs.ErrInvalidWR},
		"atomic inline":    {uverbs.SendWR{Opcode: uverbs.OpFetchAdd, Inline: data(8)}, uverbs.ErrInvalidWR},
		"atomic of 4":      {uverbs.SendWR{Opcode: uverbs.OpFetchAdd, SGL: []uverbs.SGE{{Length: 4}}}, uverbs.ErrInvalidWR},
		"atomic in pieces": {uverbs.SendWR{Opcode: uverbs.OpCompareSwap, SGL: []uverbs.SGE{{Length: 4}, {Length: 4}}}, uverbs.ErrInvalidWR},
		"key with data":    {uverbs.SendWR{Opcode: uverbs.OpLocalInv, SGL: eight}, uverbs.ErrInvalidWR},
		"key with inline":  {uverbs.SendWR{Opcode: uverbs.OpLocalInv, Inline: []byte{}}, uverbs.ErrInvalidWR},
	} {
		if n, err := w.qp.PostSend([]uverbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, ok := w.kqp.TakeSend(); ok {
		t.Error("something was sent")
	}
}

// TestNoAtomics: a device without them.
func TestNoAtomics(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { k.MLX5.NoAtomics = true })
	wr := uverbs.SendWR{Opcode: uverbs.OpFetchAdd, SGL: []uverbs.SGE{{Length: 8}}}
	if _, err := w.qp.PostSend([]uverbs.SendWR{wr}); !errors.Is(err, uverbs.ErrNotSupported) || w.dev.Supports(uverbs.QPTypeRC, uverbs.OpFetchAdd) {
		t.Error(err)
	}
}

// TestDoc: the documentation of the package names each operation that a queue pair takes before it
// says what there is not, and each other one after.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	has, hasNot, ok := strings.Cut(string(text), "There are no ")
	if !ok {
		t.Fatal("nothing is missing")
	}
	hasNot, _, _ = strings.Cut(hasNot, "\n//\n")
	named := map[driver.Opcode]string{driver.OpCompareSwap: "COMPARE_SWAP", driver.OpFetchAdd: "FETCH_ADD", driver.OpBindMW: "windows of both types"}
	c := &mlx5Context{atomics: true}
	for op := driver.Opcode(0); op < 64; op++ {
		name := op.String()
		if strings.HasPrefix(name, "Opcode(") {
			continue
		}
		if other := named[op]; other != "" {
			name = other
		}
		where, want := hasNot, "not"
		for _, typ := range []driver.QPType{driver.QPTypeRC, driver.QPTypeUC, driver.QPTypeUD, driver.QPTypeXRCInitiator, driver.QPTypeRawPacket} {
			if c.Supports(typ, op) {
				where, want = has, "there"
			}
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(where) {
			t.Errorf("%v is %s, which the documentation does not say", op, want)
		}
	}
	for typ, name := range map[driver.QPType]string{driver.QPTypeRC: "RC", driver.QPTypeUC: "UC", driver.QPTypeUD: "UD", driver.QPTypeXRCInitiator: "XRC", driver.QPTypeRawPacket: "raw packet"} {
		if c.Supports(typ, driver.OpSend) && !strings.Contains(has, name) {
			t.Errorf("%v is not named", typ)
		}
	}
}
