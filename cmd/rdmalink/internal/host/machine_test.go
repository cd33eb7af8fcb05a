package host

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/kernel"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestConnect connects a device to itself, also while its connection manager does not answer a step.
func TestConnect(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				d := f.Host(0).Device(0)
				addr := d.Addrs()[0]
				if got, err := connect(t.Context(), addr); got != d.Name() || err != nil {
					t.Errorf("%q, %v, want %q", got, err, d.Name())
				}
				for _, step := range []rdmatest.CMCommand{rdmatest.CMResolveAddr, rdmatest.CMResolveRoute, rdmatest.CMConnect} {
					f.HoldCM(step)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if got, err := connect(ctx, addr); got != d.Name() || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("command %d: %q, %v, want %q and the end of the context", step, got, err, d.Name())
					}
					cancel()
				}
				f.FailCM(rdmatest.CMBind, syscall.ENODEV)
				if got, err := connect(t.Context(), addr); got != "" || !errors.Is(err, syscall.ENODEV) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// stuck is a kernel that does not finish opening the connection manager's channel until end is closed.
type stuck struct {
	kernel.Kernel
	end chan struct{}
}

func (s stuck) Owns(a netip.Addr) bool { return a == addlink.SpareAddr.Addr() }

func (s stuck) OpenCM() (kernel.CM, error) {
	<-s.end
	return nil, syscall.EIO
}

// TestConnectStuck checks that a command that the kernel does not finish holds up nobody.
func TestConnectStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := stuck{kernel.Running, make(chan struct{})}
		defer kernel.Register(k)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := connect(ctx, addlink.SpareAddr.Addr()); got != "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", got, err)
		}
		close(k.end)
	})
}
