package rdmatest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Fault is something that will happen once.
type Fault struct {
	of       *faults
	at       string // the device
	what     string
	call     Call
	cmd      CMCommand
	skip     int
	err      error
	held     chan struct{} // of a command that has no answer
	status   uint32
	cut      int
	struck   atomic.Bool
	optional bool
}

// Optional says that the fault may never happen, and returns it. Without it a fault that was
// neither struck nor stopped when the test ends is an error of the test.
func (f *Fault) Optional() *Fault {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.optional = true
	return f
}

// Struck reports whether it has happened.
func (f *Fault) Struck() bool { return f.struck.Load() }

// Stop takes the fault back, and reports whether it had not happened.
func (f *Fault) Stop() bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	for _, list := range f.of.lists() {
		*list = slices.DeleteFunc(*list, func(other *Fault) bool { return other == f })
	}
	return !f.Struck()
}

// faults are those that a device is to have, in the order of being asked for.
type faults struct {
	pending            atomic.Bool // there may be some
	mu                 sync.Mutex
	calls, sends, recv []*Fault
	commands           []*Fault
}

func (fs *faults) lists() []*[]*Fault {
	return []*[]*Fault{&fs.calls, &fs.sends, &fs.recv, &fs.commands}
}

// idle returns the faults that have not happened and are not optional.
func (fs *faults) idle() (idle []*Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, list := range fs.lists() {
		for _, f := range *list {
			if !f.optional {
				idle = append(idle, f)
			}
		}
	}
	return idle
}

func (fs *faults) add(list *[]*Fault, f *Fault) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.of = fs
	fs.pending.Store(true)
	*list = append(*list, f)
	return f
}

// strike finds the fault whose turn it is.
func (fs *faults) strike(list *[]*Fault, concerns func(*Fault) bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, f := range *list {
		if !concerns(f) {
			continue
		}
		if f.skip--; f.skip < 0 {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			f.struck.Store(true)
			return f
		}
	}
	return nil
}

func anyFault(*Fault) bool { return true }

// Fail makes a call fail, in any opening of the device: the next one, or a later one after
// some were let through. Faults of one call queue up. The error is the kernel's answer, a [syscall.Errno].
func (d *Device) Fail(call Call, skip int, err error) *Fault {
	return d.faults.add(&d.faults.calls, &Fault{at: d.name, what: "Fail of " + cmp.Or(string(call), "any call"), call: call, skip: skip, err: err})
}

func (fs *faults) refuse(call string) error {
	if !fs.pending.Load() {
		return nil
	}
	f := fs.strike(&fs.calls, func(f *Fault) bool { return f.call == AnyCall || string(f.call) == call })
	if f == nil {
		return nil
	}
	return f.err
}

// FailSend completes a send with a status before it leaves: the next one that a queue pair
// of the device starts on, or a later one after some were let through. The queue pair is
// then in the error state.
func (d *Device) FailSend(skip int, status verbs.Status) *Fault {
	return d.faults.add(&d.faults.sends, &Fault{at: d.name, what: "FailSend", skip: skip, status: uint32(status), cut: -1})
}

// CutSend ends a connection in the middle of a message: the peer's memory gets as many
// bytes, and then both queue pairs are in the error state.
func (d *Device) CutSend(skip, bytes int) *Fault {
	return d.faults.add(&d.faults.sends, &Fault{at: d.name, what: "CutSend", skip: skip, cut: bytes})
}

func (fs *faults) strikeSend(k *packet) {
	if !fs.pending.Load() {
		return
	}
	if f := fs.strike(&fs.sends, anyFault); f != nil {
		k.status, k.cut = f.status, f.cut
	}
}

// FailRecv completes a receive with a status, when its message is there: the next one,
// or a later one after some were let through. The queue pair is then in the error state.
func (d *Device) FailRecv(skip int, status verbs.Status) *Fault {
	return d.faults.add(&d.faults.recv, &Fault{at: d.name, what: "FailRecv", skip: skip, status: uint32(status)})
}

func (fs *faults) strikeRecv() (status uint32, ok bool) {
	if !fs.pending.Load() {
		return 0, false
	}
	if f := fs.strike(&fs.recv, anyFault); f != nil {
		return f.status, true
	}
	return 0, false
}

// Call is a call to a device that can be made to fail.
type Call string

// The calls.
const (
	AnyCall           Call = ""
	CallOpen          Call = "GET_CONTEXT"
	CallAsyncEvents   Call = "ASYNC_EVENT_ALLOC"
	CallQueryDevice   Call = "QUERY_DEVICE"
	CallQueryPort     Call = "QUERY_PORT"
	CallQueryGIDs     Call = "QUERY_GID_TABLE"
	CallAllocPD       Call = "ALLOC_PD"
	CallDeallocPD     Call = "PD_DESTROY"
	CallRegMR         Call = "REG_MR"
	CallReregMR       Call = "REREG_MR"
	CallDeregMR       Call = "MR_DESTROY"
	CallAllocMW       Call = "ALLOC_MW"
	CallDeallocMW     Call = "MW_DESTROY"
	CallCreateChannel Call = "CREATE_COMP_CHANNEL"
	CallCreateCQ      Call = "CQ_CREATE"
	CallResizeCQ      Call = "RESIZE_CQ"
	CallDestroyCQ     Call = "CQ_DESTROY"
	CallCreateQP      Call = "QP_CREATE"
	CallModifyQP      Call = "MODIFY_QP"
	CallQueryQP       Call = "QUERY_QP"
	CallDestroyQP     Call = "QP_DESTROY"
	CallCreateSRQ     Call = "SRQ_CREATE"
	CallModifySRQ     Call = "MODIFY_SRQ"
	CallQuerySRQ      Call = "QUERY_SRQ"
	CallDestroySRQ    Call = "SRQ_DESTROY"
	CallCreateAH      Call = "CREATE_AH"
	CallDestroyAH     Call = "AH_DESTROY"
	CallAttachMcast   Call = "ATTACH_MCAST"
	CallDetachMcast   Call = "DETACH_MCAST"
	CallPostSend      Call = "POST_SEND"     // the doorbell, where it is a call
	CallReqNotifyCQ   Call = "REQ_NOTIFY_CQ" // arming, where it is a call
	CallMap           Call = "MMAP"          // mapping a queue
	CallAlloc         Call = "ALLOC"         // memory for a queue that the program makes
	CallEvents        Call = "EVENTS"        // the descriptor of a channel
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
