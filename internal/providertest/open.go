package providertest

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Must fails the test when there is an error.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// OpenOn opens a device on a kernel in software.
func OpenOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}

// Endpoint opens a device on a kernel in software and creates an endpoint. It closes both at the end of the
// test, and fails the test if the kernel or this process has something left then, or if the model of the device
// has noted a violation.
func Endpoint(t testing.TB, info uverbs.DeviceInfo, k *fakeverbs.Kernel, opts *uverbs.EndpointOptions) *uverbs.Endpoint {
	t.Helper()
	live := regions.Live()
	dev := Must[*uverbs.Device](t)(OpenOn(info, k))
	e := Must[*uverbs.Endpoint](t)(dev.CreateEndpoint(opts))
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{e, dev} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
		if leaks := k.Leaks(); len(leaks) > 0 || regions.Live() != live {
			t.Errorf("the kernel still has %q; %d regions live, %d at the start", leaks, regions.Live(), live)
		}
		for _, v := range k.Violations() {
			t.Error("violation:", v)
		}
	})
	return e
}
