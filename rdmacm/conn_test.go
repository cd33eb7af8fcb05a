package rdmacm

import (
	"errors"
	"maps"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// The outcome of a step counts more than the end that came right behind it.
func TestOutcomeBeforeEnd(t *testing.T) {
	rejected := &RejectedError{Reason: RejectConsumer}
	for range 200 { // a select takes either
		c := newConn(nil)
		c.event(&Event{Type: EventRejected, Err: rejected})
		c.broken(errors.New("no more events"))
		if _, err := c.await(t.Context(), EventEstablished); err != rejected {
			t.Fatal(err)
		}
	}
}

// TestCommandsOfConn counts the commands that a connection issues, from Dial to Close, when
// its peer disconnects. Each is a system call: none may come twice without need.
func TestCommandsOfConn(t *testing.T) {
	objects := map[string]int{"ALLOC_PD": 1, "PD_DESTROY": 1, "CREATE_COMP_CHANNEL": 1, "CQ_CREATE": 2, "CQ_DESTROY": 2, "QP_CREATE": 1, "QP_DESTROY": 1}
	id := map[uint32]int{abi.RDMA_USER_CM_CMD_CREATE_ID: 1, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR: 1, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE: 1,
		abi.RDMA_USER_CM_CMD_CONNECT: 1, abi.RDMA_USER_CM_CMD_DESTROY_ID: 1}
	for _, c := range []struct {
		info     uverbs.DeviceInfo
		modified int            // INIT, RTR, RTS, ERR; on iWARP INIT and ERR
		more     map[uint32]int // that depend on the transport
	}{
		{aRXE, 4, map[uint32]int{abi.RDMA_USER_CM_CMD_QUERY: 1, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR: 4, abi.RDMA_USER_CM_CMD_ACCEPT: 1, abi.RDMA_USER_CM_CMD_DISCONNECT: 1}},
		{aSIW, 2, map[uint32]int{abi.RDMA_USER_CM_CMD_QUERY: 2, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR: 1}},
	} {
		w := newWorld(t, c.info)
		conn := w.dialIn()
		cm, verbs := w.cms[0], w.verbs
		cm.report(conn.id.handle, EventDisconnected, nil)
		<-conn.Done()
		closeConn(t, conn)
		want := maps.Clone(id)
		maps.Copy(want, c.more)
		for cmd := range uint32(abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE + 1) {
			if n := cm.count(cmd); cmd != abi.RDMA_USER_CM_CMD_GET_EVENT && n != want[cmd] {
				t.Errorf("%s: command %d was given %d times, want %d", c.info.Name, cmd, n, want[cmd])
			}
		}
		calls := maps.Clone(objects)
		calls["MODIFY_QP"] = c.modified
		for call, want := range calls {
			if n := verbs.Calls(call); n != want {
				t.Errorf("%s: %s was called %d times, want %d", c.info.Name, call, n, want)
			}
		}
		w.empty()
	}
}
