package rxe

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestOpenFails checks that Open fails if the device's capabilities can't be queried.
func TestOpenFails(t *testing.T) {
	for _, call := range []string{"GET_CONTEXT", "QUERY_DEVICE"} {
		k := fakeverbs.New(uint32(verbs.DriverRXE))
		k.Fail(call, 0, syscall.EIO)
		if _, err := providertest.OpenOn(info, k); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", call, err)
		}
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Errorf("%s: %q", call, leaks)
		}
	}
}

// TestAddressHandles checks that each AH has its own number, which sends carry.
func TestAddressHandles(t *testing.T) {
	w := ready(t, verbs.QPTypeUD)
	two := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	if first, second := driver.AHData(w.ah).(*ah).num, driver.AHData(two).(*ah).num; first != 1 || second != 2 {
		t.Errorf("%d, %d", first, second)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	w.k.Fail("CREATE_AH", 0, syscall.ENOMEM)
	if _, err := w.pd.CreateAH(&verbs.AHAttr{Global: true, SGIDIndex: 1, Port: 1}); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
}
