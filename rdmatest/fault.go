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

// Fault is a fault that happens once.
type Fault struct {
	of       *faults
	at       string // the device
	what     string
	call     Call
	cmd      CMCommand
	skip     int
	err      error
	held     chan struct{} // closed when the held command has been issued
	status   uint32
	cut      int
	struck   atomic.Bool
	optional bool
}

// Format implements [fmt.Formatter]. It prints the place and the kind of the fault.
func (f *Fault) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "%s: %s", f.at, f.what) }

// Optional allows that the fault never happens, and returns f. Otherwise a fault that has
// neither happened nor been stopped when the test ends is an error of the test.
func (f *Fault) Optional() *Fault {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.optional = true
	return f
}

// Struck reports whether the fault has happened.
func (f *Fault) Struck() bool { return f.struck.Load() }

// Stop cancels the fault. It reports whether the fault had not happened yet.
func (f *Fault) Stop() bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	for _, list := range f.of.lists() {
		*list = slices.DeleteFunc(*list, func(other *Fault) bool { return other == f })
	}
	return !f.Struck()
}

// faults holds the requested faults of a device, in the order of the requests.
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

// strike returns the fault that happens now, or nil.
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

// Fail makes a call to the device fail in any program. It lets the next skip calls through, and
// makes the one after them fail. Several faults of one call happen one after another. err is
// the kernel's answer, a [syscall.Errno].
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

// FailSend completes a send with a status before it leaves. The device first lets skip
// sends of its queue pairs through. The queue pair of the failed send enters the error
// state.
func (d *Device) FailSend(skip int, status verbs.Status) *Fault {
	return d.faults.add(&d.faults.sends, &Fault{at: d.name, what: "FailSend", skip: skip, status: uint32(status), cut: -1})
}

// CutSend ends a connection in the middle of a message. The peer's memory receives the given
// number of bytes, and then both queue pairs enter the error state.
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

// FailRecv completes a receive with a status when its message arrives. The device first lets
// skip receives through. The queue pair of the failed receive enters the error state.
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
	CallPostSend      Call = "POST_SEND"     // the doorbell, if it is a system call
	CallReqNotifyCQ   Call = "REQ_NOTIFY_CQ" // arming a CQ, if it is a system call
	CallMap           Call = "MMAP"          // mapping a queue
	CallAlloc         Call = "ALLOC"         // memory for a queue that the program allocates
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

// FailCM makes the connection manager refuse the next command of a kind, on any host. Several
// faults of one command happen one after another.
func (f *Fabric) FailCM(cmd CMCommand, err error) *Fault {
	return f.faults.add(&f.faults.commands, &Fault{at: manages, what: fmt.Sprintf("FailCM of command %d", cmd), cmd: cmd, err: err})
}

// HoldCM makes the next command of a kind succeed and do nothing, so that the event that
// answers it never arrives. The channel is closed when the command has been issued. It must be
// issued before the test ends.
func (f *Fabric) HoldCM(cmd CMCommand) <-chan struct{} {
	held := make(chan struct{})
	f.faults.add(&f.faults.commands, &Fault{at: manages, what: fmt.Sprintf("HoldCM of command %d", cmd), cmd: cmd, held: held})
	return held
}

// manages is the place of the faults of FailCM and HoldCM in messages.
const manages = "connection manager"

// interfere applies the faults of FailCM and HoldCM.
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
