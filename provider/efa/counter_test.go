package efa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func (w *world) counter(t testing.TB) *uverbs.CompCounter {
	t.Helper()
	c := providertest.Must[*uverbs.CompCounter](t)(w.dev.CreateCompCounter())
	t.Cleanup(func() { _ = w.qp.Close(); _ = c.Close() })
	return c
}

func closeAll(t testing.TB, all ...io.Closer) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// wantCounts checks both numbers of a counter.
func wantCounts(t testing.TB, c *uverbs.CompCounter, successes, failures uint64) {
	t.Helper()
	n, err := c.Read()
	failed, failedErr := c.ReadErrors()
	if n != successes || failed != failures || err != nil || failedErr != nil {
		t.Errorf("%d and %d, want %d and %d (%v, %v)", n, failed, successes, failures, err, failedErr)
	}
}

// TestCounters checks that the device counts what completes, and the program sets and adds.
func TestCounters(t *testing.T) {
	w := newWorld(t, nil)
	caps, err := w.dev.QueryCompCounterCaps()
	if caps.MaxCounters != fakeefa.MaxCounters || caps.MaxValue != fakeefa.MaxCounterValue || caps.Ops.String() != "Send|Recv|Read|RemoteRead|Write|RemoteWrite" || err != nil {
		t.Errorf("%+v, %v", caps, err)
	}
	sends, recvs := w.counter(t), w.counter(t)
	if err := errors.Join(w.qp.AttachCompCounter(sends, verbs.CompCounterSend|verbs.CompCounterWrite), w.qp.AttachCompCounter(recvs, verbs.CompCounterRecv)); err != nil {
		t.Fatal(err)
	}
	w.post(t, w.send(1), w.send(2), w.send(3))
	w.postRecv(t, w.recv(4), w.recv(5))
	for _, status := range []uint32{abi.IB_WC_SUCCESS, abi.IB_WC_RNR_RETRY_EXC_ERR, abi.IB_WC_SUCCESS} {
		w.kqp.Sent(w.take(t), status)
	}
	r, _ := w.kqp.TakeRecv()
	w.kqp.Received(r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV}, false)
	wantCounts(t, sends, 2, 1)
	wantCounts(t, recvs, 1, 0)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Error(err)
	}
	wantCounts(t, recvs, 1, 1)
	if got := len(w.poll(t)); got != 5 {
		t.Errorf("%d completions", got)
	}
	if err := errors.Join(sends.Set(10), sends.Add(5), sends.SetErrors(3), sends.AddErrors(1)); err != nil {
		t.Error(err)
	}
	wantCounts(t, sends, 15, 4)
	if err := errors.Join(sends.Set(caps.MaxValue), sends.Add(1)); err != nil {
		t.Error(err)
	}
	wantCounts(t, sends, 0, 4)
	if n := testing.AllocsPerRun(100, func() { _, _ = sends.Read() }); n != 0 {
		t.Errorf("%v allocations of Read", n)
	}
	if err := sends.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "QP") {
		t.Error("a counter with a QP:", err)
	}
	closeAll(t, w.qp, sends, recvs)
	for _, err := range []error{sends.Close(), failed(sends.Read()), failed(sends.Wait(t.Context(), 0)), sends.Set(1)} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
	if v := w.k.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

func failed[T any](_ T, err error) error { return err }

// TestCountersRefused checks what the kernel, the device and the package refuse.
func TestCountersRefused(t *testing.T) {
	other := newWorld(t, nil).counter(t)
	w := newWorld(t, nil)
	c := w.counter(t)
	if err := w.qp.AttachCompCounter(c, verbs.CompCounterSend); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]struct {
		err  error
		want error
		text string
	}{
		"beyond the limit": {c.Set(fakeefa.MaxCounterValue + 1), syscall.EINVAL, "modify completion counter"},
		"no operation":     {w.qp.AttachCompCounter(c, 0), syscall.EINVAL, "attach a completion counter to QP"},
		"unknown":          {w.qp.AttachCompCounter(c, 1<<6), syscall.EINVAL, "attach a completion counter to QP"},
		"attached":         {w.qp.AttachCompCounter(c, verbs.CompCounterSend|verbs.CompCounterRecv), syscall.EBUSY, "has a counter for one of the operations"},
		"nil":              {w.qp.AttachCompCounter(nil, verbs.CompCounterSend), syscall.EINVAL, "no counter given"},
		"zero":             {w.qp.AttachCompCounter(new(uverbs.CompCounter), verbs.CompCounterSend), syscall.EINVAL, "no counter given"},
		"another device":   {w.qp.AttachCompCounter(other, verbs.CompCounterRecv), verbs.ErrClosed, "another device"},
		"zero, read":       {failed(new(uverbs.CompCounter).Read()), os.ErrInvalid, "a zero value"},
		"nil, close":       {(*uverbs.CompCounter)(nil).Close(), nil, "nil"},
	} {
		if e.want != nil && !errors.Is(e.err, e.want) || e.err == nil || !strings.Contains(e.err.Error(), e.text) {
			t.Errorf("%s: %v", name, e.err)
		}
	}
	live := regions.Live()
	for range fakeefa.MaxCounters - 1 {
		w.counter(t)
	}
	if _, err := w.dev.CreateCompCounter(); !errors.Is(err, syscall.ENOMEM) || regions.Live() != live+fakeefa.MaxCounters-1 {
		t.Errorf("one too many: %v, %d regions", err, regions.Live()-live)
	}
	for name, change := range map[string]func(*fakeefa.Options){
		"Linux 7.2":  func(o *fakeefa.Options) { o.Kernel = fakeefa.Linux72 },
		"Linux 6.1":  func(o *fakeefa.Options) { o.Kernel = fakeefa.Linux61 },
		"old device": func(o *fakeefa.Options) { o.NoCaps = abi.EFA_QUERY_DEVICE_CAPS_COMP_CNTR },
	} {
		w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) { change(o) })
		if _, err := w.dev.CreateCompCounter(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "on efa_0") {
			t.Errorf("%s: %v", name, err)
		}
		caps, err := w.dev.QueryCompCounterCaps()
		if old := name != "old device"; caps != (verbs.CompCounterCaps{}) || old && (!errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "Linux 7.3")) || !old && err != nil {
			t.Errorf("%s: %+v, %v", name, caps, err)
		}
	}
}

// TestCounterCalls fails each call of counters with each errno.
func TestCounterCalls(t *testing.T) {
	for _, c := range []struct {
		calls, text string
		do          func(*world, *uverbs.CompCounter) error
	}{
		{"QUERY_COMP_CNTR_CAPS", "query the completion counters of device on efa_0", func(w *world, _ *uverbs.CompCounter) error {
			return failed(w.dev.QueryCompCounterCaps())
		}},
		{"COMP_CNTR_CREATE ALLOC", "create completion counter on efa_0", func(w *world, _ *uverbs.CompCounter) error {
			return failed(w.dev.CreateCompCounter())
		}},
		{"COMP_CNTR_MODIFY", "modify completion counter ", func(_ *world, c *uverbs.CompCounter) error { return c.Add(1) }},
		{"QP_ATTACH_COMP_CNTR", "attach a completion counter to QP ", func(w *world, c *uverbs.CompCounter) error {
			return w.qp.AttachCompCounter(c, verbs.CompCounterSend)
		}},
		{"COMP_CNTR_DESTROY", "close completion counter ", func(_ *world, c *uverbs.CompCounter) error { return c.Close() }},
	} {
		for call := range strings.FieldsSeq(c.calls) {
			w := newWorld(t, nil)
			counter := w.counter(t)
			alive, live := w.k.Alive(), regions.Live()
			for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EAGAIN, syscall.EBUSY, syscall.EIO, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT} {
				w.k.Fail(call, 0, errno)
				err := c.do(w, counter)
				if !errors.Is(err, errno) || !strings.Contains(err.Error(), c.text) || w.k.Spare() != 0 {
					t.Errorf("%s: %v", call, err)
				}
				if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
					t.Errorf("%s: %q and %d regions, before %q and %d", call, w.k.Alive(), regions.Live(), alive, live)
				}
			}
			closeAll(t, counter)
		}
	}
}

// TestCounterRequests compares the requests with those of rdma-core 65 (libibverbs/cmd_comp_cntr.c and
// providers/efa/verbs.c): attributes, lengths and values.
func TestCounterRequests(t *testing.T) {
	w := newWorld(t, nil)
	var got []string
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if !strings.Contains(call, "COMP_CNTR") {
			return
		}
		for _, a := range r.Attrs() {
			call += fmt.Sprintf(" %#x:%d", a.AttrId, a.Len)
			if v, ok := r.Value(a.AttrId); ok && a.Len > 0 && a.Len <= 8 && !strings.Contains(call, "QUERY") {
				call += fmt.Sprintf("=%d", v)
			}
			if b, ok := r.Bytes(a.AttrId); ok && len(b) == 32 {
				call += fmt.Sprintf("=%x", b[:16])
				if b := b[24:]; b[0] != 8 || !fakeverbs.IsZero(b[1:]) {
					t.Errorf("the length is %x", b)
				}
			}
		}
		got = append(got, call)
	}
	errs := failed(w.dev.QueryCompCounterCaps())
	c := w.counter(t)
	errs = errors.Join(errs, c.Set(7), c.AddErrors(9), failed(c.Read()), failed(c.ReadErrors()), w.qp.AttachCompCounter(c, verbs.CompCounterSend|verbs.CompCounterWrite))
	closeAll(t, w.qp, c)
	if errs != nil {
		t.Error(errs)
	}
	const desc = "01000000000000000000000000000000"
	want := []string{
		"QUERY_COMP_CNTR_CAPS 0x0:4 0x1:8 0x2:4", "COMP_CNTR_CREATE 0x0:0 0x1000:32=" + desc + " 0x1001:32=" + desc, "COMP_CNTR_MODIFY 0x0:0 0x1:8=0 0x2:8=0 0x3:8=7",
		"COMP_CNTR_MODIFY 0x0:0 0x1:8=1 0x2:8=1 0x3:8=9", "QP_ATTACH_COMP_CNTR 0x0:0 0x1:0 0x2:4=17", "COMP_CNTR_DESTROY 0x0:0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCounterWait checks that a wait ends with its number, with a failure, with its context and with
// the counter.
func TestCounterWait(t *testing.T) {
	w := newWorld(t, nil)
	c := w.counter(t)
	if err := c.Set(5); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Wait(t.Context(), 5); n != 5 || err != nil {
		t.Error(n, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := c.Wait(canceled, 5); n != 5 || err != nil {
		t.Error("the number is reached:", n, err)
	}
	if n, err := c.Wait(canceled, 6); n != 5 || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for completion counter ") {
		t.Error(n, err)
	}
	done := make(chan error)
	wait := func(value uint64) { go func() { done <- failed(c.Wait(t.Context(), value)) }() }
	wait(7)
	if err := errors.Join(c.Add(1), c.Add(1)); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	wait(8)
	for over := false; !over; { // a failure before the wait begins does not end it
		if err := c.AddErrors(1); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if over = true; err == nil || !strings.Contains(err.Error(), "operations have failed") {
				t.Error(err)
			}
		default:
			runtime.Gosched()
		}
	}
	wait(8)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}
