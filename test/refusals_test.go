//go:build vm

package test

import (
	"testing"

	"github.com/goverbs/goverbs/test/refusals"
)

// TestRefusals holds the devices of this kernel to the table that those of package
// rdmatest are held to.
func TestRefusals(t *testing.T) {
	t.Run("rxe", func(t *testing.T) {
		rxeFabric(t)
		noLeak(t)
		refusals.Run(t, "gvrxe0", refusals.RXE)
	})
	t.Run("siw", func(t *testing.T) {
		fabric(t)
		noLeak(t)
		refusals.Run(t, dummyLink, refusals.SIW)
	})
}
