package rsocket

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmatest"
)

// fabric is a machine with one device, which all connections of a test run over.
type fabric struct {
	*rdmatest.Fabric
	t *testing.T
	// over is for connections over streams, and nil if the connection manager connects.
	over  *oob.Config
	pipes map[*Listener]*conntest.Pipes
}

// anywhere runs a test over each kind of device, and then with connections over streams, on the devices that can have
// them.
func anywhere(t *testing.T, test func(t *testing.T, f *fabric)) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) { test(t, newFabric(t, kind)) })
	}
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run("streams/"+kind.String(), func(t *testing.T) { test(t, newFabric(t, kind).streams()) })
	}
}

// streams makes the connections run over streams.
func (f *fabric) streams() *fabric {
	f.over = &oob.Config{PD: conntest.OpenPD(f.t, f.Host(0).Device(0))}
	f.pipes = make(map[*Listener]*conntest.Pipes)
	return f
}

func (f *fabric) listen(z Config) (*Listener, error) {
	lc := ListenConfig{Config: z}
	if f.over == nil {
		return lc.Listen(f.t.Context(), fabricHost+":0")
	}
	p := conntest.NewPipes()
	l, err := lc.ListenOver(p, f.over)
	f.pipes[l] = p
	return l, err
}

// dial dials a listener of listen.
func (f *fabric) dial(ctx context.Context, l *Listener, z Config) (*Conn, error) {
	d := Dialer{Config: z}
	if f.over == nil {
		return d.Dial(ctx, l.Addr().String())
	}
	return d.DialOver(ctx, f.pipes[l].Dial(), f.over)
}

const fabricHost = "198.51.100.1"

func newFabric(t *testing.T, kind rdmatest.Kind) *fabric {
	return newFabricOf(t, rdmatest.DeviceOptions{Kind: kind})
}

// newFabricOf has a device with the options, at the address of all.
func newFabricOf(t *testing.T, d rdmatest.DeviceOptions) *fabric {
	d.Addrs = []netip.Addr{netip.MustParseAddr(fabricHost)}
	f := rdmatest.NewWith(t, &rdmatest.Options{Strict: true, Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{d}}}})
	return &fabric{Fabric: f, t: t}
}

// pipe makes both ends of a connection.
func (f *fabric) pipe(z Config) (dialled, accepted net.Conn, stop func(), err error) {
	z.MaxIdleTimeout = cmp.Or(z.MaxIdleTimeout, -1)
	l, err := f.listen(z)
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
	if dialled, err = f.dial(f.t.Context(), l, z); err != nil {
		return nil, nil, nil, err
	}
	err = <-failed
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, err
}
