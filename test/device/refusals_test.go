//go:build vm

package device

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/test/refusals"
)

// TestRefusals holds the devices of this kernel to the table that those of package
// rdmatest are held to.
func TestRefusals(t *testing.T) {
	t.Run("rxe", func(t *testing.T) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		refusals.Run(t, "gvrxe0", refusals.RXE)
	})
	t.Run("siw", func(t *testing.T) {
		kit.Fabric(t)
		kit.NoLeak(t)
		refusals.Run(t, kit.DummyLink, refusals.SIW)
	})
}
