package uverbs_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// exported is a file in the role of a dma-buf.
func exported(t *testing.T, size int64) *os.File {
	t.Helper()
	f := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "memory")))
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func bareMLX5(t *testing.T) (*fakeverbs.Kernel, *uverbs.PD) {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverMLX5))
	dev := must[*uverbs.Device](t)(uverbs.DeviceInfo{Name: "mlx5_0", Node: kernel.Node(k), Driver: verbs.DriverMLX5}.Open())
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	t.Cleanup(func() {
		if err := errors.Join(pd.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
		if left := k.Leaks(); len(left) > 0 {
			t.Error(left)
		}
	})
	return k, pd
}

func TestRegDMABuf(t *testing.T) {
	_, pd := bareMLX5(t)
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRelaxedOrdering
	mr := must[*uverbs.MR](t)(pd.RegDMABuf(exported(t, 3<<16), 1<<16|24, 1<<16, 0x7f00_0000_0018, access))
	if mr.Addr() != 0x7f00_0000_0018 || mr.Len() != 1<<16 || mr.Bytes() != nil || mr.LKey() == 0 {
		t.Errorf("%#x, %d bytes, %v", mr.Addr(), mr.Len(), mr.LKey())
	}
	if s := mr.SGE(8, 16); s.Addr != mr.Addr()+8 || s.LKey != mr.LKey() {
		t.Errorf("%+v", s)
	}
	want := uverbs.MRAttr{LKey: mr.LKey(), RKey: mr.RKey(), Length: 1 << 16, IOVA: mr.Addr()}
	if got, err := mr.Query(); got != want || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := mr.Close(); err != nil {
		t.Error(err)
	}
	if _, err := mr.Query(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestRegDMABufRefused checks that each error has a remedy, and nothing leaks.
func TestRegDMABufRefused(t *testing.T) {
	k, pd := bareMLX5(t)
	f := exported(t, 1<<16)
	for _, c := range []struct {
		offset, iova uint64
		length       int
		access       verbs.Access
		fail         error
		want         error
		hint         string
	}{
		{length: 0, want: syscall.EINVAL, hint: "at least one byte"},
		{length: 1, offset: 8, iova: 16, want: syscall.EINVAL, hint: "different offsets within a page"},
		{length: 1, access: verbs.AccessOnDemand, want: syscall.EINVAL, hint: "and RelaxedOrdering"},
		{length: 1, access: verbs.AccessRemoteWrite, want: syscall.EINVAL, hint: "AccessLocalWrite"},
		{length: 1<<16 + 1, want: syscall.EINVAL, hint: "not a dma-buf, or offset and length exceed it"},
		{length: 1, offset: 1 << 63, want: syscall.EINVAL, hint: "exceed it"},
		{length: math.MaxInt, offset: 1 << 12, want: syscall.EINVAL, hint: "exceed it"},
		{length: 1, fail: syscall.EOPNOTSUPP, want: verbs.ErrNotSupported, hint: "does not support dma-bufs"},
		{length: 1, fail: syscall.ENOMEM, want: syscall.ENOMEM},
	} {
		if c.fail != nil {
			k.Fail("REG_DMABUF_MR", 0, c.fail.(syscall.Errno))
		}
		mr, err := pd.RegDMABuf(f, c.offset, c.length, c.iova, c.access)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%+v: %v, %v", c, mr, err)
		}
	}
	f.Close()
	if mr, err := pd.RegDMABuf(f, 0, 1, 0, 0); err == nil || !strings.Contains(err.Error(), "closed file") {
		t.Errorf("of a closed file: %v, %v", mr, err)
	}
	if mr, err := pd.RegDMABuf(nil, 0, 1, 0, 0); !errors.Is(err, os.ErrInvalid) || !strings.Contains(err.Error(), "buf is nil") {
		t.Errorf("of no file: %v, %v", mr, err)
	}
	if alive := k.Alive(); len(alive) != 1 {
		t.Error(alive)
	}
}
