package mlx5

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestTimestamps checks that completions say when they were, by the device's clock and by the host's.
func TestTimestamps(t *testing.T) {
	for _, mask := range []verbs.WCExtMask{verbs.WCExtTimestamp, verbs.WCExtWallClock, verbs.WCExtTimestamp | verbs.WCExtWallClock} {
		w := newStamped(t, mask)
		attr := providertest.Must[*verbs.DeviceAttr](t)(w.dev.Attr())
		before := time.Now().UnixNano()
		var last uint64
		for i := range 5 {
			w.postRecv(t, verbs.RecvWR{WRID: uint64(i)}, verbs.RecvWR{WRID: 100})
			for range 2 {
				r, _ := w.kqp.TakeRecv()
				w.kqp.Received(r, wcOf(0), false)
			}
			wcs, ext := make([]verbs.WC, 3), make([]verbs.WCExt, 3)
			n, err := w.cq.PollExt(wcs, ext)
			if n != 2 || err != nil || wcs[0].WRID != uint64(i) || wcs[1].WRID != 100 {
				t.Fatal(n, err, wcs)
			}
			after := time.Now().UnixNano()
			for _, e := range ext[:2] {
				if wall := mask&verbs.WCExtWallClock != 0; wall != (e.WallClock >= before-1000 && e.WallClock <= after+1000) {
					t.Errorf("at %d, between %d and %d", e.WallClock, before, after)
				}
				if ticks := mask&verbs.WCExtTimestamp != 0; ticks != (e.Timestamp != 0) || e.Timestamp < last || e.Timestamp > attr.TimestampMask {
					t.Errorf("%d after %d", e.Timestamp, last)
				}
				last = e.Timestamp
			}
		}
	}
}

// TestTimestampOfError checks that a completion with an error, whose syndrome stands in that place,
// has no timestamp.
func TestTimestampOfError(t *testing.T) {
	w := newStamped(t, verbs.WCExtTimestamp|verbs.WCExtWallClock)
	w.postRecv(t, verbs.RecvWR{})
	r, _ := w.kqp.TakeRecv()
	w.kqp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_LOC_LEN_ERR}, false)
	wcs, ext := make([]verbs.WC, 2), []verbs.WCExt{{Timestamp: 1}, {Timestamp: 1}}
	if n, err := w.cq.PollExt(wcs, ext); n != 1 || err != nil || wcs[0].Status != verbs.StatusLocLenErr || ext[0] != (verbs.WCExt{}) || ext[1].Timestamp != 1 {
		t.Error(n, err, wcs, ext)
	}
}

// TestNoClock has a kernel without the clock's page: completions have ticks alone.
func TestNoClock(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).NoClock = true })
	for mask, refused := range map[verbs.WCExtMask]bool{verbs.WCExtTimestamp: false, verbs.WCExtWallClock: true, 1<<31 | verbs.WCExtTimestamp: true} {
		cq, err := w.dev.CreateCQ(1, &uverbs.CQOptions{Ext: mask})
		if errors.Is(err, verbs.ErrNotSupported) != refused || err == nil && cq.Close() != nil {
			t.Errorf("%#x: %v", mask, err)
		}
	}
}

// TestReading converts ticks before and after those of the kernel's page, also where their
// number wraps around.
func TestReading(t *testing.T) {
	const mask = 1<<41 - 1
	for _, r := range []reading{
		{nsec: 5_000_000, cycles: 1000, mask: mask, mult: 3 << 20, shift: 20},
		{nsec: 5_000_000, cycles: mask - 1, mask: mask, mult: 3 << 20, shift: 20},
		{nsec: 5_000_000, cycles: 3, mask: mask, mult: 3 << 20, shift: 20},
	} {
		for _, off := range []int64{0, 1, 100, -1, -100} {
			if got := r.time((r.cycles + uint64(off)) & mask); got != 5_000_000+3*off {
				t.Errorf("%d ticks from %+v: %d", off, r, got)
			}
		}
	}
	r := reading{nsec: 100, cycles: 10, mask: mask, mult: 1 << 19, shift: 20, frac: 1 << 19}
	if after, before := r.time(11), r.time(9); after != 101 || before != 100 {
		t.Error("parts of a nanosecond:", after, before)
	}
}

// TestReadingWhileWritten checks that the page is read again if the kernel is changing it.
func TestReadingWhileWritten(t *testing.T) {
	w := newStamped(t, verbs.WCExtWallClock)
	c := &clock{page: providertest.Must[*mmap.Region](t)(w.k.Map(clockKey*4096, 4096, 0))}
	defer c.page.Close()
	sign := providertest.Must[*atomic.Uint32](t)(c.page.Word(clockSign))
	nsec := providertest.Must[*atomic.Uint64](t)(c.page.Word64(clockNsec))
	was := nsec.Load()
	sign.Add(1)
	nsec.Store(1)
	read := make(chan reading)
	go func() { read <- c.read() }()
	select {
	case r := <-read:
		t.Fatalf("%+v, while it is written", r)
	default:
	}
	nsec.Store(was + 7)
	sign.Add(1)
	if r := <-read; r.nsec != was+7 {
		t.Errorf("%+v", r)
	}
}

// TestModerate checks that an event covers several completions, or those of a period.
func TestModerate(t *testing.T) {
	w := newWorld(t, nil)
	arrive := func() {
		w.postRecv(t, verbs.RecvWR{})
		r, _ := w.kqp.TakeRecv()
		w.kqp.Received(r, wcOf(0), false)
	}
	if err := w.cq.Moderate(3, 0); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		if err := w.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if w.kcq.Events() != round {
				t.Fatalf("an event at completion %d", i)
			}
			arrive()
		}
		if _, err := w.cq.Channel().Get(context.Background()); err != nil || w.kcq.Events() != round+1 {
			t.Fatal(err, w.kcq.Events())
		}
		w.poll(t)
	}
	if err := w.cq.Moderate(100, 50*time.Microsecond); err != nil {
		t.Fatal(err)
	}
	if err := w.cq.Arm(false); err != nil {
		t.Fatal(err)
	}
	arrive()
	if _, err := w.cq.Channel().Get(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := w.cq.Moderate(1, 4096*time.Microsecond); err == nil {
		t.Error("a period that the device has not")
	}
}

// TestQueryClock checks that the clock goes on between readings, and completions are stamped by it.
func TestQueryClock(t *testing.T) {
	w := newStamped(t, verbs.WCExtTimestamp)
	mask := providertest.Must[*verbs.DeviceAttr](t)(w.dev.Attr()).TimestampMask
	before := providertest.Must[uint64](t)(w.dev.QueryClock())
	mappings := w.k.Calls("MMAP")
	w.postRecv(t, verbs.RecvWR{})
	r, _ := w.kqp.TakeRecv()
	w.kqp.Received(r, wcOf(0), false)
	wcs, ext := make([]verbs.WC, 1), make([]verbs.WCExt, 1)
	if n, err := w.cq.PollExt(wcs, ext); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	providertest.Must[*verbs.PortAttr](t)(w.dev.QueryPort(1)) // the model's clock moves with calls
	after := providertest.Must[uint64](t)(w.dev.QueryClock())
	if stamp := ext[0].Timestamp; before == 0 || after > mask || (stamp-before)&mask > (after-before)&mask || after == before {
		t.Errorf("%d, then a completion at %d, then %d", before, stamp, after)
	}
	if n := w.k.Calls("MMAP"); n != mappings {
		t.Errorf("the second reading maps the clock anew: %d, then %d", mappings, n)
	}
}

// TestClockWords checks that the words are big-endian, the high one first.
func TestClockWords(t *testing.T) {
	page := providertest.Must[*mmap.Region](t)(mmap.Anonymous(4096, nil))
	defer page.Close()
	copy(page.Bytes(), []byte{0, 0, 1, 2, 3, 4, 5, 6})
	var c ticks
	c.high, _ = page.Word(0)
	c.low, _ = page.Word(4)
	if got := c.read(); got != 0x1_0203_0405_06 {
		t.Errorf("%#x", got)
	}
}

// TestNoTicks has kernels that do not let programs read the clock, refuse the mapping, or
// return impossible offsets.
func TestNoTicks(t *testing.T) {
	query := func(change func(*fakeverbs.Kernel)) error {
		k := fakeverbs.New(uint32(verbs.DriverMLX5))
		change(k)
		dev := providertest.Must[*uverbs.Device](t)(providertest.OpenOn(info, k))
		defer func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}()
		k.Fail("MMAP", 0, syscall.EPERM)
		_, err := dev.QueryClock()
		return err
	}
	if err := query(func(k *fakeverbs.Kernel) { fakemlx5.OptionsOf(k).NoTicks = true }); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if err := query(func(*fakeverbs.Kernel) {}); !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
	err := query(func(k *fakeverbs.Kernel) {
		k.Tamper = func(call string, r *ioctl.Request) {
			if call == "GET_CONTEXT" {
				b, _ := r.Bytes(0x1001)
				b[48], b[49] = 0xfc, 0x0f // 4092
			}
		}
	})
	if err == nil || errors.Is(err, syscall.EPERM) {
		t.Error("a clock beyond its page:", err)
	}
}
