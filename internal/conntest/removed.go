// Package conntest has what the tests of packages with connections share.
package conntest

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// Removed removes a device under calls that wait. Each of them has to end, and to say why.
func Removed(t *testing.T, d *rdmatest.Device, waits ...func() error) {
	t.Helper()
	ends := make(chan error)
	for _, wait := range waits {
		go func() { ends <- wait() }()
	}
	d.Remove()
	for range waits {
		if err := <-ends; !errors.Is(err, rdmacm.ErrDeviceRemoved) {
			t.Error(err)
		}
	}
}
