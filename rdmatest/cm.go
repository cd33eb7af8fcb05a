package rdmatest

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// CMCommand is a command of the connection manager that can be made to fail, or to have no
// answer.
type CMCommand uint32

// The commands.
const (
	CMCreateID     CMCommand = abi.RDMA_USER_CM_CMD_CREATE_ID
	CMDestroyID    CMCommand = abi.RDMA_USER_CM_CMD_DESTROY_ID
	CMBind         CMCommand = abi.RDMA_USER_CM_CMD_BIND
	CMResolveAddr  CMCommand = abi.RDMA_USER_CM_CMD_RESOLVE_ADDR
	CMResolveRoute CMCommand = abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE
	CMQuery        CMCommand = abi.RDMA_USER_CM_CMD_QUERY
	CMInitQPAttr   CMCommand = abi.RDMA_USER_CM_CMD_INIT_QP_ATTR
	CMConnect      CMCommand = abi.RDMA_USER_CM_CMD_CONNECT
	CMListen       CMCommand = abi.RDMA_USER_CM_CMD_LISTEN
	CMAccept       CMCommand = abi.RDMA_USER_CM_CMD_ACCEPT
	CMReject       CMCommand = abi.RDMA_USER_CM_CMD_REJECT
	CMDisconnect   CMCommand = abi.RDMA_USER_CM_CMD_DISCONNECT
	CMSetOption    CMCommand = abi.RDMA_USER_CM_CMD_SET_OPTION
	CMMigrateID    CMCommand = abi.RDMA_USER_CM_CMD_MIGRATE_ID
	CMJoinMcast    CMCommand = abi.RDMA_USER_CM_CMD_JOIN_MCAST
	CMLeaveMcast   CMCommand = abi.RDMA_USER_CM_CMD_LEAVE_MCAST
)

// FailCM makes the connection manager refuse the next command of a kind, on any host. Faults of one
// command queue up.
func (f *Fabric) FailCM(cmd CMCommand, err error) *Fault {
	return f.faults.add(&f.faults.commands, &Fault{at: manages, what: fmt.Sprintf("FailCM of command %d", cmd), cmd: cmd, err: err})
}

// HoldCM makes the next command of a kind succeed and do nothing, so that the event which
// answers it never comes. The channel is closed when the command was issued, which is to happen
// before the test ends.
func (f *Fabric) HoldCM(cmd CMCommand) <-chan struct{} {
	held := make(chan struct{})
	f.faults.add(&f.faults.commands, &Fault{at: manages, what: fmt.Sprintf("HoldCM of command %d", cmd), cmd: cmd, held: held})
	return held
}

// manages is where faults of FailCM and HoldCM are.
const manages = "connection manager"

// interfere does what FailCM and HoldCM asked for.
func (fs *faults) interfere(cmd CMCommand) (done bool, err error) {
	if !fs.pending.Load() {
		return false, nil
	}
	f := fs.strike(&fs.commands, func(f *Fault) bool { return f.cmd == cmd })
	if f == nil {
		return false, nil
	}
	if f.held != nil {
		close(f.held)
	}
	return true, f.err
}
