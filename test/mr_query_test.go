//go:build vm

package test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestQueryMR: the kernel reports the same keys and length of a region.
func TestQueryMR(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		mr := must(pd.AllocMR(10_000, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil))(t)
		closeLater(t, mr)
		want := uverbs.MRAttr{LKey: mr.LKey(), RKey: mr.RKey(), Length: 10_000, IOVA: mr.Addr()}
		if got := must(mr.Query())(t); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestRegDMABuf: neither driver takes dma-bufs, and the error says so.
func TestRegDMABuf(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		f := must(os.Open("/proc/self/exe"))(t)
		defer f.Close()
		_, err := pd.RegDMABuf(f, 0, 4096, 0, verbs.AccessLocalWrite)
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "takes no dma-bufs") {
			t.Error(err)
		}
		if _, err := pd.RegDMABuf(f, 0, 0, 0, 0); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	})
}

// onBoth runs a test on a device of each driver.
func onBoth(t *testing.T, test func(*testing.T, *uverbs.PD)) {
	for _, l := range []perfLink{perfRxe, perfSiwCM} {
		t.Run(l.device, func(t *testing.T) {
			l.up(t)
			noLeak(t)
			d := must(uverbs.Open(l.device))(t)
			closeLater(t, d)
			pd := must(d.AllocPD())(t)
			closeLater(t, pd)
			test(t, pd)
		})
	}
}
