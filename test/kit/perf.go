//go:build vm

package kit

import (
	"testing"
)

// PerfLink is where a test runs: a device, and how its ends meet.
type PerfLink struct {
	Name, Device, Host string
	Cm                 bool
}

var (
	PerfRxe   = PerfLink{"rxe", RxeLink, "127.0.0.1", false}
	PerfRxeCM = PerfLink{"rxe -R", RxeLink, RxeIPv4, true}
	PerfSiwCM = PerfLink{"siw -R", DummyLink, DummyIPv4, true}
)

// Up makes the link.
func (l PerfLink) Up(t *testing.T) {
	if l.Device == RxeLink {
		RxeFabric(t)
	} else {
		Fabric(t)
	}
}
