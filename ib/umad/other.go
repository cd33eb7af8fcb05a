//go:build !linux

package umad

import (
	"fmt"
	"runtime"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

func (h host) openPort(_ Config, device string, number uint8) (mad.Port, error) {
	return nil, failed("open", device, number, fmt.Errorf("%w on %s", verbs.ErrNotSupported, runtime.GOOS))
}

// OpenIBSim returns an error, because package umad supports only Linux.
func OpenIBSim(c IBSim) (mad.Port, error) {
	return nil, failed("open", "ibsim0", 1, fmt.Errorf("%w on %s", verbs.ErrNotSupported, runtime.GOOS))
}
