package mlx5

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func sges(n int) (sgl []verbs.SGE) {
	for i := range n {
		sgl = append(sgl, verbs.SGE{Addr: 0x1122334455660000 + uint64(i), Length: uint32(100 + i), LKey: 0xa1b2c300 + uint32(i)})
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
	wr   verbs.SendWR
	want fakeverbs.Work
}

// forms returns one request of each form, and the bytes that the device must find. most is
// the limit of inline data.
func forms(types uint8, most int) map[string]formTest {
	all := make(map[string]formTest)
	add := func(name string, wr verbs.SendWR, want fakeverbs.Work) {
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
	payloads := map[string]verbs.SendWR{"an empty SGE between": {SGL: []verbs.SGE{sges(1)[0], {Addr: 7}, sges(2)[1]}}}
	for n := range maxSGE + 1 {
		payloads[fmt.Sprint(n, " SGEs")] = verbs.SendWR{SGL: sges(n)}
	}
	for _, n := range []int{0, 1, 11, 12, 13, 28, 29, 44, 60, 61, 76, 92, 108, 124, 140} {
		if n <= most {
			payloads[fmt.Sprint(n, " bytes inline")] = verbs.SendWR{Inline: data(n)}
		}
	}
	for what, wr := range payloads {
		wr.RemoteAddr, wr.RKey, wr.Imm, wr.InvalidateRKey = raddr, rkey, imm, inv
		for op, want := range map[verbs.Opcode]fakeverbs.Work{
			verbs.OpSend:         {Opcode: abi.IB_UVERBS_WR_SEND},
			verbs.OpSendImm:      {Opcode: abi.IB_UVERBS_WR_SEND_WITH_IMM, Imm: be32(imm)},
			verbs.OpSendWithInv:  {Opcode: abi.IB_UVERBS_WR_SEND_WITH_INV, Imm: inv},
			verbs.OpRDMAWrite:    {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE, RemoteAddr: raddr, RKey: rkey},
			verbs.OpRDMAWriteImm: {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, RemoteAddr: raddr, RKey: rkey, Imm: be32(imm)},
			verbs.OpRDMARead:     {Opcode: abi.IB_UVERBS_WR_RDMA_READ, RemoteAddr: raddr, RKey: rkey},
		} {
			if wr.Opcode = op; op != verbs.OpRDMARead || wr.Inline == nil {
				add(fmt.Sprint(op, " of ", what), wr, want)
			}
		}
	}
	eight := []verbs.SGE{{Addr: 0x1122334455667788, Length: 8, LKey: 0xa1b2c3d4}}
	base := verbs.SendWR{RemoteAddr: raddr, RKey: rkey, Imm: imm, InvalidateRKey: inv, CompareAdd: 0x1112131415161718, Swap: 0x2122232425262728, SGL: eight}
	for op, want := range map[verbs.Opcode]fakeverbs.Work{
		verbs.OpCompareSwap: {Opcode: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd, Swap: base.Swap},
		verbs.OpFetchAdd:    {Opcode: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd},
	} {
		wr := base
		wr.Opcode = op
		add(op.String(), wr, want)
	}
	add("LOCAL_INV", verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: inv}, fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_LOCAL_INV, Imm: inv})
	return all
}

var flagForms = map[verbs.SendFlags]uint32{
	0: 0, verbs.SendSignaled: abi.IB_SEND_SIGNALED, verbs.SendFence: abi.IB_SEND_FENCE, verbs.SendSolicited: abi.IB_SEND_SOLICITED,
	verbs.SendSignaled | verbs.SendFence | verbs.SendSolicited: abi.IB_SEND_SIGNALED | abi.IB_SEND_FENCE | abi.IB_SEND_SOLICITED,
}

// devices are all ways in which a context's registers and completions may be.
var devices = map[string]fakemlx5.Options{
	"dynamic UARs":               {},
	"dynamic UARs, no BlueFlame": {NoBlueFlame: true},
	"dynamic UARs, no WC":        {NoWC: true},
	"high UAR numbers":           {FirstUAR: 1<<16 + 255},
	"static UARs":                {StaticUARs: true},
	"static UARs, no BlueFlame":  {StaticUARs: true, NoBlueFlame: true},
	"completions of version 0":   {CQEVersion0: true},
	"an old kernel":              {Request: 24},
	"an older kernel":            {Request: 16},
	"InfiniBand":                 {Infiniband: true},
}

// TestSend checks the device's view of each form of request, with each set of flags,
// wherever in the queue it begins, alone and in lists.
func TestSend(t *testing.T) {
	for name, options := range devices {
		for typ, bit := range map[verbs.QPType]uint8{verbs.QPTypeRC: typeRC, verbs.QPTypeUC: typeUC} {
			t.Run(fmt.Sprint(name, ", ", typ), func(t *testing.T) {
				w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
					*fakemlx5.OptionsOf(k), o.Type, o.Cap.MaxInline = options, typ, 140
				})
				id, list := uint64(1), 0
				for name, f := range forms(bit, 140) {
					for flags, kernelFlags := range flagForms {
						f.wr.WRID, f.wr.Flags = id, flags
						want := f.want
						want.Flags |= kernelFlags
						list = list%3 + 1
						w.sendAndCompare(t, name, f.wr, &want, list)
						if canBuild(&f.wr) {
							w.compare(t, name+", built", f.wr, &want, list, w.build)
						}
						id++
					}
				}
			})
		}
	}
}

// sendAndCompare posts a request n times at once. The last of them always completes.
func (w *world) sendAndCompare(t *testing.T, name string, wr verbs.SendWR, want *fakeverbs.Work, n int) {
	t.Helper()
	w.compare(t, name, wr, want, n, w.post)
}

// canBuild reports whether uverbs.Sends has a method for a request.
func canBuild(wr *verbs.SendWR) bool {
	return (wr.Opcode == verbs.OpSend || wr.Opcode == verbs.OpRDMAWrite) && (wr.Inline != nil || len(wr.SGL) == 1)
}

// add adds a request to a list that is built.
func add(q *uverbs.Sends, wr *verbs.SendWR) {
	if wr.AH != nil {
		q.SetDCAddr(wr.AH.(*uverbs.AH), wr.RemoteQPN, wr.DCKey, wr.DCStream)
	}
	switch write := wr.Opcode == verbs.OpRDMAWrite; {
	case write && wr.Inline != nil:
		q.WriteInline(wr.WRID, wr.Flags, wr.Inline, wr.RemoteAddr, wr.RKey)
	case write:
		q.Write(wr.WRID, wr.Flags, wr.SGL[0], wr.RemoteAddr, wr.RKey)
	case wr.Inline != nil:
		q.SendInline(wr.WRID, wr.Flags, wr.Inline)
	default:
		q.Send(wr.WRID, wr.Flags, wr.SGL[0])
	}
}

// build is post with uverbs.Sends.
func (w *world) build(t testing.TB, wrs ...verbs.SendWR) {
	t.Helper()
	q := w.qp.Sends()
	for i := range wrs {
		add(q, &wrs[i])
	}
	if n, err := q.Ring(); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

// compare posts a request n times at once with post. The last of them always completes.
func (w *world) compare(t *testing.T, name string, wr verbs.SendWR, want *fakeverbs.Work, n int, post func(testing.TB, ...verbs.SendWR)) {
	t.Helper()
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = wr
	}
	wrs[n-1].Flags |= verbs.SendSignaled
	post(t, wrs...)
	owed := 0
	for i := range n {
		got, expect := w.take(t), *want
		if wrs[i].Flags&verbs.SendSignaled != 0 {
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
		if wc.WRID != wr.WRID || wc.Status != verbs.StatusSuccess || wc.QPN != w.qp.QPN() || wc.Opcode != operations[wr.Opcode].wc {
			t.Errorf("%s: %+v", name, wc)
		}
		if bytes := map[verbs.Opcode]uint32{verbs.OpRDMARead: want.Len(), verbs.OpFetchAdd: 8, verbs.OpCompareSwap: 8}[wr.Opcode]; wc.ByteLen != bytes {
			t.Errorf("%s: %d bytes of %d", name, wc.ByteLen, bytes)
		}
	}
}

func sameWork(a, b *fakeverbs.Work) bool {
	return a.Opcode == b.Opcode && a.Flags == b.Flags && bytes.Equal(a.Inline, b.Inline) && slices.Equal(a.SGL, b.SGL) &&
		a.RemoteAddr == b.RemoteAddr && a.RKey == b.RKey && a.Imm == b.Imm && a.Compare == b.Compare && a.Swap == b.Swap &&
		a.To == b.To && a.Bind == b.Bind
}

// TestSignalAll has a QP all of whose sends are signaled.
func TestSignalAll(t *testing.T) {
	w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.SignalAll = true })
	w.post(t, verbs.SendWR{WRID: 7, Opcode: verbs.OpSend})
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
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data(inline)}
		for range 5 {
			n := 0
			for ; ; n++ {
				wr.WRID = uint64(n)
				if _, err := w.qp.PostSend([]verbs.SendWR{wr}); err != nil {
					if !errors.Is(err, verbs.ErrQueueFull) {
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

// TestSendBatch checks that a batch rings once, and ends at the first request that is
// refused. A request alone is copied, if it is short.
func TestSendBatch(t *testing.T) {
	var stores []int
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores = append(stores, c.Size)
			}
		}
	})
	good := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sges(1)}
	long := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sges(6)}
	empty := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	bad := verbs.SendWR{Opcode: verbs.OpFlush}
	for _, c := range []struct {
		wrs  []verbs.SendWR
		n    int
		err  error
		want []int
	}{
		{[]verbs.SendWR{good, good, good, bad, good}, 3, verbs.ErrNotSupported, []int{8}},
		{[]verbs.SendWR{bad}, 0, verbs.ErrNotSupported, nil},
		{nil, 0, nil, nil},
		{[]verbs.SendWR{good}, 1, nil, []int{64}},
		{[]verbs.SendWR{long}, 1, nil, []int{64, 64}},
		{[]verbs.SendWR{empty}, 1, nil, []int{8}},
		{[]verbs.SendWR{good, bad}, 1, verbs.ErrNotSupported, []int{64}},
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

// TestBuilt builds what PostSend refuses, what comes after that, and lists that meet a full queue. Doorbells
// are those of PostSend.
func TestBuilt(t *testing.T) {
	var stores []int
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores = append(stores, c.Size)
			}
		}
	})
	depth := int(w.qp.Cap().MaxSendWR)
	good := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sges(1)}
	short := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Inline: data(20)}
	much := verbs.SendWR{Opcode: verbs.OpSend, Inline: data(int(w.qp.Cap().MaxInline) + 1)}
	bad := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{{Length: verbs.BadLength}}}
	flag := verbs.SendWR{Opcode: verbs.OpSend, Flags: 8, SGL: sges(1)}
	for _, c := range []struct {
		wrs  []verbs.SendWR
		n    int
		err  error
		want []int
	}{
		{[]verbs.SendWR{good, short, good, bad, good}, 3, verbs.ErrInvalidWR, []int{8}},
		{[]verbs.SendWR{much, good}, 0, verbs.ErrInvalidWR, nil},
		{[]verbs.SendWR{short, flag, short}, 1, verbs.ErrInvalidWR, []int{64}},
		{nil, 0, nil, nil},
		{[]verbs.SendWR{good}, 1, nil, []int{64}},
		{slices.Repeat([]verbs.SendWR{good}, depth), depth, nil, []int{8}},
		{slices.Repeat([]verbs.SendWR{short}, depth+2), depth, verbs.ErrQueueFull, []int{8}},
	} {
		stores = nil
		q := w.qp.Sends()
		for i := range c.wrs {
			wr := c.wrs[i]
			wr.WRID = uint64(i)
			add(q, &wr)
		}
		if n, err := q.Ring(); n != c.n || !errors.Is(err, c.err) || !cmp.Equal(stores, c.want, cmpopts.EquateEmpty()) {
			t.Error(n, err, stores, "want", c.n, c.err, c.want)
		}
		for range c.n {
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		}
		if _, ok := w.kqp.TakeSend(); ok {
			t.Error("more was sent")
		}
		for i := 0; i < c.n; {
			wcs := w.poll(t)
			if len(wcs) == 0 {
				t.Fatalf("%d completions of %d", i, c.n)
			}
			for _, wc := range wcs {
				if wc.WRID != uint64(i) {
					t.Errorf("%+v, want %d", wc, i)
				}
				i++
			}
		}
	}
}

// TestBuiltSlowly builds requests in the states in which none is plain: before RTS, after a change of
// keys, and in a queue without SGEs.
func TestBuiltSlowly(t *testing.T) {
	r, sge := newRig(t), sges(1)[0]
	r.state = verbs.QPStateRTR
	r.StartSends(nil)
	r.BuildSend(1, 0, sge)
	if n, err := r.RingSends(); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Error("before RTS:", n, err)
	}
	r.state, r.smallFence = verbs.QPStateRTS, true
	r.StartSends(nil)
	r.BuildSend(1, 0, sge)
	r.BuildSend(2, 0, sge)
	if n, err := r.RingSends(); n != 2 || err != nil {
		t.Error("after a change of keys:", n, err)
	}
	for i, want := range []uint64{ctrlSmallFence, 0} {
		if flags := be64(r.sq.ring.At(uint32(i))[0][1]) >> 32; flags != want {
			t.Errorf("request %d has flags %#x, want %#x", i, flags, want)
		}
	}
	r.sq.maxSGE = 0
	r.StartSends(nil)
	r.BuildSendInline(1, 0, data(8))
	r.BuildSend(2, 0, sge)
	if n, err := r.RingSends(); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error("without SGEs:", n, err)
	}
}

// TestRefuses posts requests that would fail the QP, or that the device would misread.
func TestRefuses(t *testing.T) {
	w := newWorld(t, nil)
	eight := []verbs.SGE{{Length: 8}}
	for name, c := range map[string]struct {
		wr   verbs.SendWR
		want error
	}{
		"unknown opcode":   {verbs.SendWR{Opcode: 99}, verbs.ErrNotSupported},
		"flush":            {verbs.SendWR{Opcode: verbs.OpFlush}, verbs.ErrNotSupported},
		"no window":        {verbs.SendWR{Opcode: verbs.OpBindMW}, verbs.ErrInvalidWR},
		"unknown flag":     {verbs.SendWR{Opcode: verbs.OpSend, Flags: 8}, verbs.ErrInvalidWR},
		"too many SGEs":    {verbs.SendWR{Opcode: verbs.OpSend, SGL: sges(maxSGE + 1)}, verbs.ErrInvalidWR},
		"bad length":       {verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: verbs.BadLength}}}, verbs.ErrInvalidWR},
		"2 GiB":            {verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1 << 31}}}, verbs.ErrInvalidWR},
		"2 GiB in all":     {verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1 << 30}, {Length: 1 << 30}}}, verbs.ErrInvalidWR},
		"both":             {verbs.SendWR{Opcode: verbs.OpSend, SGL: sges(1), Inline: data(1)}, verbs.ErrInvalidWR},
		"much inline":      {verbs.SendWR{Opcode: verbs.OpSend, Inline: data(int(w.qp.Cap().MaxInline) + 1)}, verbs.ErrInvalidWR},
		"read inline":      {verbs.SendWR{Opcode: verbs.OpRDMARead, Inline: data(1)}, verbs.ErrInvalidWR},
		"atomic inline":    {verbs.SendWR{Opcode: verbs.OpFetchAdd, Inline: data(8)}, verbs.ErrInvalidWR},
		"atomic of 4":      {verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{{Length: 4}}}, verbs.ErrInvalidWR},
		"atomic in pieces": {verbs.SendWR{Opcode: verbs.OpCompareSwap, SGL: []verbs.SGE{{Length: 4}, {Length: 4}}}, verbs.ErrInvalidWR},
		"key with data":    {verbs.SendWR{Opcode: verbs.OpLocalInv, SGL: eight}, verbs.ErrInvalidWR},
		"key with inline":  {verbs.SendWR{Opcode: verbs.OpLocalInv, Inline: []byte{}}, verbs.ErrInvalidWR},
	} {
		if n, err := w.qp.PostSend([]verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, ok := w.kqp.TakeSend(); ok {
		t.Error("something was sent")
	}
}

// TestNoAtomics has a device without atomics.
func TestNoAtomics(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).NoAtomics = true })
	wr := verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{{Length: 8}}}
	if _, err := w.qp.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrNotSupported) || w.dev.Supports(verbs.QPTypeRC, verbs.OpFetchAdd) {
		t.Error(err)
	}
}

// TestDoc checks that the package's documentation names each operation that a queue pair
// takes before "There are no", and each other one after.
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
	named := map[verbs.Opcode]string{verbs.OpCompareSwap: "COMPARE_SWAP", verbs.OpFetchAdd: "FETCH_ADD", verbs.OpBindMW: "windows of both types"}
	c := &mlx5Context{atomics: true, tso: abi.Mlx5IbTsoCaps{MaxTso: 1, SupportedQpts: 1 << verbs.QPTypeRawPacket}}
	for op := verbs.Opcode(0); op < 64; op++ {
		name := op.String()
		if strings.HasPrefix(name, "Opcode(") {
			continue
		}
		if other := named[op]; other != "" {
			name = other
		}
		where, want := hasNot, "not"
		for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator, verbs.QPTypeRawPacket} {
			if c.Supports(typ, op) {
				where, want = has, "there"
			}
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(where) {
			t.Errorf("%v is %s, which the documentation does not say", op, want)
		}
	}
	for typ, name := range map[verbs.QPType]string{verbs.QPTypeRC: "RC", verbs.QPTypeUC: "UC", verbs.QPTypeUD: "UD", verbs.QPTypeXRCInitiator: "XRC", verbs.QPTypeRawPacket: "raw packet"} {
		if c.Supports(typ, verbs.OpSend) && !strings.Contains(has, name) {
			t.Errorf("%v is not named", typ)
		}
	}
}
