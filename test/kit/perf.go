//go:build vm

package kit

import (
	"testing"
)

// PerfLink is a device, and the way in which the two ends of a test connect on it.
type PerfLink struct {
	Name, Device, Host string
	Cm                 bool
}

var (
	PerfRxe   = PerfLink{"rxe", RxeLink, "127.0.0.1", false}
	PerfRxeCM = PerfLink{"rxe -R", RxeLink, RxeIPv4, true}
	PerfSiwCM = PerfLink{"siw -R", DummyLink, DummyIPv4, true}
)

// Up adds the link.
func (l PerfLink) Up(t *testing.T) {
	if l.Device == RxeLink {
		RxeFabric(t)
	} else {
		Fabric(t)
	}
}
