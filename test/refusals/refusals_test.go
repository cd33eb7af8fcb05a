package refusals_test

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/refusals"
)

// The devices in software refuse what those of Linux do. TestRefusals in package test
// holds Linux to the same table.
func TestInSoftware(t *testing.T) {
	for kind, on := range map[rdmatest.Kind]refusals.On{rdmatest.RXE: refusals.RXE, rdmatest.SIW: refusals.SIW} {
		t.Run(kind.String(), func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			refusals.Run(t, f.Host(0).Device(0).Name(), on)
		})
	}
}
