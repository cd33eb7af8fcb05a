package netlinkrdma_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func TestSystem(t *testing.T) {
	k := kernel()
	k.System = netlinkrdma.System{NetnsMode: netlinkrdma.NetnsShared, CopyOnFork: true, Monitor: true}
	c := netlinkrdma.Client{Kernel: k}
	if err := c.SetPrivilegedQKey(true); err != nil {
		t.Fatal(err)
	}
	if err := c.SetNetnsMode(netlinkrdma.NetnsExclusive); err != nil {
		t.Fatal(err)
	}
	want := netlinkrdma.System{CopyOnFork: true, Monitor: true, PrivilegedQKey: opt(true)}
	if s, err := c.System(); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.SetNetnsMode(27); !errors.Is(err, syscall.EINVAL) || errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Error(err)
	}
	k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SYS_SET: syscall.EBUSY}
	if err := c.SetNetnsMode(netlinkrdma.NetnsShared); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "other network namespaces exist") {
		t.Error(err)
	}
	k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SYS_SET: syscall.EINVAL}
	if err := c.SetPrivilegedQKey(true); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "this kernel has no such setting") {
		t.Error(err)
	}
}
