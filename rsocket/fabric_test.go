package rsocket

import (
	"net"
	"testing"

	"github.com/goverbs/goverbs/internal/fakefabric"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
)

// fabric is a machine with one device, which all connections of a test run over.
type fabric struct{ t *testing.T }

const fabricHost = fakefabric.Host

var drivers = fakefabric.Drivers

func newFabric(t *testing.T, info uverbs.DeviceInfo) *fabric {
	fakefabric.New(t, info)
	return &fabric{t}
}

// pipe makes both ends of a connection.
func (f *fabric) pipe(z Sizes) (dialled, accepted net.Conn, stop func(), err error) {
	lc := ListenConfig{Sizes: z, KeepAlive: -1}
	l, err := lc.Listen(f.t.Context(), "tcp", fabricHost+":0")
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
	d := Dialer{Sizes: z, KeepAlive: -1}
	if dialled, err = d.DialContext(f.t.Context(), "tcp", l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	err = <-failed
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, err
}
