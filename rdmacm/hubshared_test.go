package rdmacm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// TestSharedHub: those who dial have one channel, which goes with the last of
// them; who comes later gets another.
func TestSharedHub(t *testing.T) {
	w := newDatagramWorld(t)
	for range 2 {
		first, second := w.openUD(), w.openUD()
		if len(w.cms) != 1 {
			t.Errorf("%d channels for two Conns", len(w.cms))
		}
		closeConn(t, first)
		select {
		case <-w.cms[0].closed:
			t.Error("the channel was closed under a Conn")
		default:
		}
		closeConn(t, second)
		w.empty()
	}
}

// TestSharedHubFails: when no more events come, all who share the hub hear of
// it, and the next one has a hub that works.
func TestSharedHubFails(t *testing.T) {
	w := newDatagramWorld(t)
	broken := []*Conn{w.openUD(), w.openUD()}
	k := w.cms[0]
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	k.events <- abi.RdmaUcmEventResp{} // about nobody: to have the hub ask again
	for _, c := range broken {
		<-c.Done()
		if !errors.Is(c.Err(), syscall.EACCES) {
			t.Error(c.Err())
		}
	}
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, 0)
	next := w.openUD()
	if len(w.cms) != 2 || next.Err() != nil {
		t.Errorf("%d channels, %v", len(w.cms), next.Err())
	}
	for _, c := range append(broken, next) {
		closeConn(t, c)
	}
	w.empty()
}

// TestHubFailsBeforeSink: an ID that was being made when the hub failed.
func TestHubFailsBeforeSink(t *testing.T) {
	useFake(t, newFake())
	h, err := newHub(kernel.Owner(local4))
	if err != nil {
		t.Fatal(err)
	}
	h.fail(syscall.EIO)
	c := newConn(h)
	if c.id, err = h.newID(c, verbs.PortSpaceTCP); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(c.Err(), syscall.EIO) {
		t.Error(c.Err())
	}
	if err := errors.Join(c.id.Destroy(), h.release()); err != nil {
		t.Error(err)
	}
}
