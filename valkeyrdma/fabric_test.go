package valkeyrdma

import (
	"context"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// kinds are the kinds of devices that support RDMA WRITE with immediate data.
var kinds = []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5, rdmatest.ERDMA}

// fabric is a machine with one device. All connections of a test run over it.
type fabric struct {
	*rdmatest.Fabric
	t *testing.T
}

const fabricHost = "198.51.100.1"

func newFabric(t *testing.T, kind rdmatest.Kind) *fabric {
	d := rdmatest.DeviceOptions{Addrs: []netip.Addr{netip.MustParseAddr(fabricHost)}}
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Strict: true, Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{d}}}})
	return &fabric{f, t}
}

// pipe creates both ends of a connection.
func (f *fabric) pipe(cfg Config) (dialled, accepted *Conn, err error) {
	l, err := (&ListenConfig{Config: cfg}).Listen(f.t.Context(), fabricHost+":0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted = c.(*Conn)
		}
		failed <- err
	}()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	if dialled, err = (&Dialer{Config: cfg}).Dial(ctx, l.Addr().String()); err != nil {
		return nil, nil, err
	}
	return dialled, accepted, <-failed
}

// pair creates both ends of a connection, and closes them at the end of the test.
func (f *fabric) pair(cfg Config) (dialled, accepted *Conn) {
	f.t.Helper()
	a, b, err := f.pipe(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
