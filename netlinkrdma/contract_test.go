package netlinkrdma_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

func subscribed(t *testing.T) *netlinkrdma.Events {
	t.Helper()
	k := kernel()
	k.System.Monitor = true
	events, err := (&netlinkrdma.Client{Kernel: k}).Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestContractContext checks the errors of contexts: they name the operation and match
// ctx.Err(), and only those of deadlines are timeouts.
func TestContractContext(t *testing.T) {
	events := subscribed(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for _, ctx := range []context.Context{canceled, expired} {
		_, err := events.Next(ctx)
		if !errors.Is(err, ctx.Err()) || !strings.HasPrefix(err.Error(), "wait for an event of an RDMA device: ") {
			t.Error(err)
		}
		timeout, ok := err.(net.Error)
		if want := ctx == expired; (ok && timeout.Timeout()) != want || os.IsTimeout(err) != want {
			t.Errorf("%v: a timeout: %t, want %t", err, ok, want)
		}
	}
	if err := events.Close(); err != nil {
		t.Error("after contexts ended:", err)
	}
}

// TestContractClosed checks Close, a second Close, and a Close of nil.
func TestContractClosed(t *testing.T) {
	events := subscribed(t)
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := events.Next(t.Context())
	for _, err := range []error{err, events.Close()} {
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	var none *netlinkrdma.Events
	_, err = none.Next(t.Context())
	for _, err := range []error{err, none.Close()} {
		if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestContractUnsupported checks that whatever a kernel or a driver does not support
// matches errors.ErrUnsupported and names the call and the device.
func TestContractUnsupported(t *testing.T) {
	k := kernel()
	c := netlinkrdma.Client{Kernel: k}
	_, noEvents := c.Subscribe()
	_, noCounters := fail(k, abi.RDMA_NLDEV_CMD_STAT_GET, syscall.EINVAL, func() (any, error) { return c.PortCounters(7, 1) })
	_, noRaw := fail(k, abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW, syscall.EINVAL, func() (any, error) { return c.RawObject(7, netlinkrdma.RawQP, 1, 1) })
	_, noPools := fail(k, abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET, syscall.EINVAL, func() (any, error) {
		for p, err := range c.FRMRPools(7, nil) {
			return p, err
		}
		return nil, nil
	})
	_, noSubDevice := fail(k, abi.RDMA_NLDEV_CMD_DELDEV, syscall.EOPNOTSUPP, func() (any, error) { return nil, c.DeleteSubDevice(7) })
	_, noFamily := fail(k, abi.RDMA_NLDEV_CMD_GET, syscall.EPROTONOSUPPORT, func() (any, error) { return c.Device(7) })
	for text, err := range map[string]error{
		"subscribe to the events": noEvents, "counters of port 1 of RDMA device 7": noCounters,
		"find raw QP 1 of RDMA device 7": noRaw, "list the FRMR pools of RDMA device 7": noPools,
		"delete sub-device RDMA device 7": noSubDevice, "find RDMA device 7": noFamily,
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

func fail(k *nltest.Kernel, op uint16, errno syscall.Errno, call func() (any, error)) (any, error) {
	k.Fail = map[uint16]error{op: errno}
	defer func() { k.Fail = nil }()
	return call()
}
