//go:build !linux

package umad

import (
	"fmt"
	"runtime"

	"github.com/goverbs/goverbs/mad"
	"github.com/goverbs/goverbs/verbs"
)

func (h host) openPort(_ Config, device string, number uint8) (mad.Port, error) {
	return nil, fmt.Errorf("%w on %s", verbs.ErrNotSupported, runtime.GOOS)
}

// OpenIBSim returns an error, because package umad supports only Linux.
func OpenIBSim(c IBSim) (mad.Port, error) {
	return nil, fmt.Errorf("ibsim: %w on %s", verbs.ErrNotSupported, runtime.GOOS)
}
