package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/verbs"
)

// A source port of the kernel's choice that TCP can't use yet is given back for
// another. The caller's preparation is not repeated.
func TestDialTriesAnotherPort(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EADDRNOTAVAIL, syscall.EADDRINUSE} {
		w := newWorld(t, aSIW)
		var asked []uint32
		prepared := 0
		cfg := &Config{Prepare: func(c *Conn) error {
			prepared++
			_, err := c.QP().PostRecv([]verbs.RecvWR{{WRID: 7}})
			return err
		}}
		w.before = func(k *fakeKernel, cmd uint32, body []byte) {
			if cmd != abi.RDMA_USER_CM_CMD_CONNECT {
				return
			}
			asked = append(asked, view[abi.RdmaUcmConnect](body).Id)
			k.fail(cmd, errno)
			if len(asked) == 3 {
				k.fail(cmd, 0)
			}
		}
		c, err := DialAddrPort(t.Context(), addr4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(asked, []uint32{1, 2, 3}) || prepared != 1 {
			t.Errorf("connected IDs %v, prepared %d times", asked, prepared)
		}
		if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != 2 {
			t.Error(n, "IDs destroyed")
		}
		if e, ok := fakesiw.QPOf(w.verbs.QueuePairs()[0]).TakeRecv(); !ok || e.Id != 7 {
			t.Error("the receive is gone")
		}
		if c.id.qp == nil {
			t.Error("nobody would move the queue pair")
		}
		closeConn(t, c)
		w.empty()
	}
}

// Tries have an end, and a port of the caller's is not replaced.
func TestDialPortTaken(t *testing.T) {
	for source, tries := range map[netip.AddrPort]int{
		{}:                                       connectTries,
		netip.MustParseAddrPort("10.1.2.3:0"):    connectTries,
		netip.MustParseAddrPort("10.1.2.3:4711"): 1,
	} {
		w := newWorld(t, aSIW)
		w.fail(abi.RDMA_USER_CM_CMD_CONNECT, syscall.EADDRNOTAVAIL)
		_, err := DialAddrPort(t.Context(), addr4, &Config{Source: source})
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Error(err)
		}
		if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_CONNECT); n != tries {
			t.Errorf("from %v: %d tries, want %d", source, n, tries)
		}
		w.empty()
	}
}

// Whatever fails on the way to another port ends the dial and leaves nothing.
func TestDialAnotherPortFails(t *testing.T) {
	for _, cmd := range []uint32{abi.RDMA_USER_CM_CMD_DESTROY_ID, abi.RDMA_USER_CM_CMD_CREATE_ID,
		abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE,
		abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR} {
		w := newWorld(t, aSIW)
		w.before = func(k *fakeKernel, asked uint32, _ []byte) {
			if asked == abi.RDMA_USER_CM_CMD_CONNECT {
				k.fail(asked, syscall.EADDRNOTAVAIL)
				k.failOnce(cmd, syscall.EIO)
			}
		}
		if _, err := DialAddrPort(t.Context(), addr4, nil); !errors.Is(err, syscall.EIO) {
			t.Errorf("command %d: %v", cmd, err)
		}
		w.empty()
	}
}

// siw's errno for a peer that sends before it may says nothing to a user.
func TestDialPeerSpeaksFirst(t *testing.T) {
	w := newWorld(t, aSIW)
	w.answers = func(ev *abi.RdmaUcmEventResp) {
		ev.Event, ev.Status = uint32(EventConnectError), uint32(1<<32-int64(syscall.EINVAL))
	}
	_, err := DialAddrPort(t.Context(), addr4, nil)
	want := "rdmacm: dial: connect 10.1.2.3:7471: invalid argument (" + earlyPeer + ")"
	if !errors.Is(err, syscall.EINVAL) || err.Error() != want {
		t.Error(err)
	}
	w.empty()
}
