package rsocket

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// fabric is a machine with one device, which all connections of a test run over.
type fabric struct {
	*rdmatest.Fabric
	t *testing.T
}

const fabricHost = "198.51.100.1"

func newFabric(t *testing.T, kind rdmatest.Kind) *fabric {
	return newFabricOf(t, rdmatest.DeviceOptions{Kind: kind})
}

// newFabricOf has a device with the options, at the address of all.
func newFabricOf(t *testing.T, d rdmatest.DeviceOptions) *fabric {
	d.Addrs = []netip.Addr{netip.MustParseAddr(fabricHost)}
	f := rdmatest.NewWith(t, &rdmatest.Options{Strict: true, Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{d}}}})
	return &fabric{f, t}
}

// pipe makes both ends of a connection.
func (f *fabric) pipe(z Config) (dialled, accepted net.Conn, stop func(), err error) {
	z.KeepAlive = -1
	lc := ListenConfig{Config: z}
	l, err := lc.Listen(f.t.Context(), fabricHost+":0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept()
		failed <- err
	}()
	d := Dialer{Config: z}
	if dialled, err = d.DialContext(f.t.Context(), "tcp", l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	err = <-failed
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, err
}
