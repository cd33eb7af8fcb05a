package uverbs_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestOpensWithoutProvider has every driver that Linux numbers open, answer queries,
// and make a PD and an MR, with no provider for it.
func TestOpensWithoutProvider(t *testing.T) {
	for id := verbs.DriverMLX5; id <= verbs.DriverIonic; id++ {
		if strings.HasPrefix(id.String(), "DriverID(") {
			continue
		}
		t.Run(id.String(), func(t *testing.T) {
			k := fakeverbs.New(uint32(id))
			noLeaks(t, k)
			// An ABI that no provider of these tests knows.
			dev := must[*uverbs.Device](t)(openOn(uverbs.DeviceInfo{Name: fmt.Sprint(id, 0), Driver: id, ABI: 99}, k))
			if _, err := dev.Query(); err != nil {
				t.Error(err)
			}
			if _, err := dev.QueryPort(1); err != nil {
				t.Error(err)
			}
			if _, err := dev.GIDTable(); err != nil {
				t.Error(err)
			}
			pd := must[*uverbs.PD](t)(dev.AllocPD())
			mr := must[*uverbs.MR](t)(pd.AllocMR(1, 0, nil))
			for _, c := range []closer{mr, pd, dev} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestUnknownDriverRefuses has a driver without a number want bytes that nobody
// knows: the error says so, and keeps the errno.
func TestUnknownDriverRefuses(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EINVAL: "may want bytes of its own", syscall.EFAULT: "may want bytes of its own", syscall.EAGAIN: "cgroup",
	} {
		k := fakeverbs.New(63)
		noLeaks(t, k)
		k.Fail("GET_CONTEXT", 0, errno)
		_, err := openOn(uverbs.DeviceInfo{Name: "new0", Driver: 63}, k)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
