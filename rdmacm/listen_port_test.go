package rdmacm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// A port of the kernel's choice that TCP has in use is given back for another; one of
// the caller's is not, and tries have an end.
func TestListenTriesAnotherPort(t *testing.T) {
	for _, c := range []struct {
		address      string
		taken, tries int
	}{
		{"10.0.0.1:0", 0, 1}, {"10.0.0.1:0", 3, 4}, {":0", 3, 5}, {"10.0.0.1:0", portTries, portTries}, {"10.0.0.1:7471", 1, 1},
	} {
		k := newFake()
		useFake(t, k)
		taken := c.taken
		k.onCall = func(cmd uint32, _ []byte) {
			if cmd != abi.RDMA_USER_CM_CMD_LISTEN {
				return
			}
			if taken == 0 {
				k.fail(cmd, 0)
			}
			taken--
		}
		if c.taken > 0 {
			k.fail(abi.RDMA_USER_CM_CMD_LISTEN, syscall.EADDRINUSE)
		}
		l, err := Listen(c.address, nil)
		if failed := c.taken == c.tries; errors.Is(err, syscall.EADDRINUSE) != failed || (err != nil) != failed {
			t.Errorf("%+v: %v", c, err)
		}
		if n := k.count(abi.RDMA_USER_CM_CMD_LISTEN); n != c.tries {
			t.Errorf("%+v: %d tries", c, n)
		}
		if l != nil {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if made, gone := k.count(abi.RDMA_USER_CM_CMD_CREATE_ID), k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); made != gone {
			t.Errorf("%+v: %d IDs made, %d destroyed", c, made, gone)
		}
	}
}
