package rdmatest

import "github.com/goverbs/goverbs/internal/abi"

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

// FailCM has the connection manager refuse the next command of a kind, on any host.
func (f *Fabric) FailCM(cmd CMCommand, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manager.refused[cmd] = err
}

// HoldCM has the next command of a kind succeed and do nothing, so that the event which
// answers it never comes. The channel is closed when the command was issued.
func (f *Fabric) HoldCM(cmd CMCommand) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manager.held[cmd] = make(chan struct{})
	return f.manager.held[cmd]
}

// interfere does what FailCM and HoldCM asked for.
func (m *manager) interfere(cmd CMCommand) (done bool, err error) {
	if err := m.refused[cmd]; err != nil {
		delete(m.refused, cmd)
		return true, err
	}
	if held := m.held[cmd]; held != nil {
		delete(m.held, cmd)
		close(held)
		return true, nil
	}
	return false, nil
}
