//go:build vm

package device

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestNewestOnRXE checks that rxe has nothing of what Linux 7.2 adds: its kernel knows the method and
// not the answer, older kernels do not know the method.
func TestNewestOnRXE(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	dev := kit.Must(kit.InfoOf(t, kit.RxeLink).Open())(t)
	defer func() { kit.OK(t, dev.Close()) }()
	want := syscall.EPROTONOSUPPORT
	if kit.SinceLinux7() {
		want = syscall.EOPNOTSUPP
	}
	_, err := dev.QueryPortSpeed(1)
	if !errors.Is(err, verbs.ErrNotSupported) || !errors.Is(err, want) || !strings.Contains(err.Error(), "QUERY_PORT_SPEED of object DEVICE") {
		t.Errorf("%v, want %v", err, want)
	}
	ph := uint8(1)
	_, err = dev.AllocDMAH(&uverbs.DMAHOptions{PH: &ph})
	if !errors.Is(err, verbs.ErrNotSupported) || !errors.Is(err, syscall.EPROTONOSUPPORT) || !strings.Contains(err.Error(), "DMAH_ALLOC of object DMAH needs Linux 7.2, and driver rxe") {
		t.Error(err)
	}
}

// TestImplicitOnRXE checks that rxe pages ranges on demand since Linux 7.2, and never the whole address space.
func TestImplicitOnRXE(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	dev := kit.Must(kit.InfoOf(t, kit.RxeLink).Open())(t)
	defer func() { kit.OK(t, dev.Close()) }()
	pd := kit.Must(dev.AllocPD())(t)
	defer func() { kit.OK(t, pd.Close()) }()
	_, err := pd.RegImplicitMR(verbs.AccessLocalWrite)
	if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "DeviceAttr") {
		t.Error(err)
	}
	if _, err := pd.AllocNullMR(); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if _, err := dev.QueryClock(); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
