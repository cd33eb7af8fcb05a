package mlx5

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestQueryClock: the clock goes on between readings, and completions are stamped by it.
func TestQueryClock(t *testing.T) {
	w := newStamped(t, verbs.WCExtTimestamp)
	mask := must[*verbs.DeviceAttr](t)(w.dev.Attr()).TimestampMask
	before := must[uint64](t)(w.dev.QueryClock())
	mappings := w.k.Calls("MMAP")
	w.postRecv(t, verbs.RecvWR{})
	r, _ := w.kqp.TakeRecv()
	w.kqp.Received(r, wcOf(0), false)
	wcs, ext := make([]verbs.WC, 1), make([]verbs.WCExt, 1)
	if n, err := w.cq.PollExt(wcs, ext); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	must[*verbs.PortAttr](t)(w.dev.QueryPort(1)) // the model's clock moves with calls
	after := must[uint64](t)(w.dev.QueryClock())
	if stamp := ext[0].Timestamp; before == 0 || after > mask || (stamp-before)&mask > (after-before)&mask || after == before {
		t.Errorf("%d, then a completion at %d, then %d", before, stamp, after)
	}
	if n := w.k.Calls("MMAP"); n != mappings {
		t.Errorf("the second reading maps the clock anew: %d, then %d", mappings, n)
	}
}

// TestClockWords: the words are big-endian, the high one first.
func TestClockWords(t *testing.T) {
	page := must[*mmap.Region](t)(mmap.Anonymous(4096, nil))
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
		dev := must[*uverbs.Device](t)(openOn(info, k))
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
