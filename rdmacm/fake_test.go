package rdmacm

import (
	"context"
	"math/bits"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// fakeKernel answers commands: with an errno set for one, else with success
// and what a handler writes. Events come from the test.
type fakeKernel struct {
	mu       sync.Mutex
	errnos   map[uint32]syscall.Errno
	once     map[uint32]bool // these errnos are given once
	calls    []uint32
	bodies   map[uint32][]byte // the last body of each command
	handles  uint32
	reported map[uint32]uint32 // events got, by handle
	uids     map[uint32]uint64 // by handle
	members  map[uint32]uint32 // the ID's handle, by the membership's
	option   []byte            // the last value of SET_OPTION
	paths    []byte            // the answer to a query for paths
	services []byte            // and for services
	device   uint32            // index of the IDs' device
	access   verbs.Access      // that INIT grants
	iwarp    bool
	noMask   bool // no state has attributes to set
	datagram bool // the IDs are; the last one made says
	onCall   func(cmd uint32, body []byte)
	onDone   func(cmd uint32, body []byte) // when it has succeeded

	events chan abi.RdmaUcmEventResp
	closed chan struct{}
}

func newFake() *fakeKernel {
	return &fakeKernel{
		errnos: map[uint32]syscall.Errno{}, once: map[uint32]bool{}, bodies: map[uint32][]byte{},
		reported: map[uint32]uint32{}, uids: map[uint32]uint64{}, members: map[uint32]uint32{},
		events: make(chan abi.RdmaUcmEventResp, 16), closed: make(chan struct{}),
	}
}

func bytesOf[T any](t *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))
}

func (k *fakeKernel) Command(in, out []byte) error {
	hdr := view[abi.RdmaUcmCmdHdr](in)
	body := append([]byte(nil), in[8:]...)
	if int(hdr.In) != len(body) || int(hdr.Out) > len(out) {
		return syscall.EFAULT
	}
	k.mu.Lock()
	before, after := k.onCall, k.onDone
	k.mu.Unlock()
	if before != nil {
		before(hdr.Cmd, body)
	}
	if err := k.carryOut(hdr.Cmd, body, out); err != nil {
		return err
	}
	if after != nil {
		after(hdr.Cmd, body)
	}
	return nil
}

func (k *fakeKernel) carryOut(cmd uint32, body, out []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, cmd)
	k.bodies[cmd] = body
	if errno := k.errnos[cmd]; errno != 0 {
		if k.once[cmd] {
			delete(k.once, cmd)
			delete(k.errnos, cmd)
		}
		return errno
	}
	k.answer(cmd, body, out)
	return nil
}

func (k *fakeKernel) answer(cmd uint32, body, out []byte) {
	switch cmd {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		k.handles++
		create := view[abi.RdmaUcmCreateId](body)
		k.uids[k.handles], k.datagram = create.Uid, verbs.QPType(create.QpType) == verbs.QPTypeUD
		copy(out, bytesOf(&abi.RdmaUcmCreateIdResp{Id: k.handles}))
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		n := k.reported[view[abi.RdmaUcmDestroyId](body).Id]
		copy(out, bytesOf(&abi.RdmaUcmDestroyIdResp{EventsReported: n}))
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
		k.option = append([]byte(nil), out...)
	case abi.RDMA_USER_CM_CMD_QUERY:
		if view[abi.RdmaUcmQuery](body).Option == abi.RDMA_USER_CM_QUERY_PATH {
			copy(out, k.paths)
			return
		}
		if view[abi.RdmaUcmQuery](body).Option == abi.RDMA_USER_CM_QUERY_IB_SERVICE {
			copy(out, k.services)
			return
		}
		var resp abi.RdmaUcmQueryAddrResp
		resp.SrcSize, _ = putSockaddr(&resp.SrcAddr, addr4)
		resp.DstSize, _ = putSockaddr(&resp.DstAddr, addr4)
		resp.PortNum, resp.IbdevIndex, resp.NodeGuid = 1, k.device, bits.ReverseBytes64(uint64(hostGUID))
		copy(out, bytesOf(&resp))
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		join := view[abi.RdmaUcmJoinMcast](body)
		k.handles++
		k.uids[k.handles], k.members[k.handles] = join.Uid, join.Id
		copy(out, bytesOf(&abi.RdmaUcmCreateIdResp{Id: k.handles}))
	case abi.RDMA_USER_CM_CMD_LEAVE_MCAST:
		n := k.reported[view[abi.RdmaUcmDestroyId](body).Id]
		copy(out, bytesOf(&abi.RdmaUcmDestroyIdResp{EventsReported: n}))
	case abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		n := k.reported[view[abi.RdmaUcmMigrateId](body).Id]
		copy(out, bytesOf(&abi.RdmaUcmMigrateResp{EventsReported: n}))
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		copy(out, bytesOf(k.qpAttr(view[abi.RdmaUcmInitQpAttr](body).QpState)))
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		if a := view[abi.RdmaUcmAccept](body); a.ConnParam.Valid != 0 {
			k.uids[a.Id] = a.Uid
		}
	}
}

// qpAttr has the masks that kernels give.
func (k *fakeKernel) qpAttr(state uint32) *abi.IbUverbsQpAttr {
	const iwarpInit = verbs.QPAttrState | verbs.QPAttrAccess | verbs.QPAttrPort
	a := &abi.IbUverbsQpAttr{QpState: state, PortNum: 1, MaxDestRdAtomic: 9, MaxRdAtomic: 9}
	switch s := verbs.QPState(state); {
	case k.noMask:
	case k.iwarp:
		a.QpAttrMask = uint32(iwarpInit)
	case k.datagram:
		a.QpAttrMask = uint32(verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey)
		a.Qkey = 0x01234567
	case s == verbs.QPStateInit:
		a.QpAttrMask, a.QpAccessFlags = uint32(iwarpInit|verbs.QPAttrPKeyIndex), uint32(k.access)
	case s == verbs.QPStateRTR:
		a.QpAttrMask = uint32(verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|
			verbs.QPAttrRQPSN|verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer) | 0xe00000
		a.PathMtu, a.DestQpNum = uint32(verbs.MTU1024), 99
		a.AhAttr.Grh.Dgid, a.AhAttr.Grh.SgidIndex, a.AhAttr.IsGlobal, a.AhAttr.PortNum = fakeverbs.IPv4GID, 1, 1, 1
	case s == verbs.QPStateRTS:
		a.QpAttrMask = uint32(verbs.QPAttrState | verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt |
			verbs.QPAttrRNRRetry | verbs.QPAttrSQPSN | verbs.QPAttrMaxQPRDAtomic)
	}
	return a
}

func (k *fakeKernel) Await(ctx context.Context, in, out []byte) error {
	k.mu.Lock()
	errno := k.errnos[abi.RDMA_USER_CM_CMD_GET_EVENT]
	k.mu.Unlock()
	if errno != 0 {
		return errno
	}
	select {
	case ev := <-k.events:
		copy(out, bytesOf(&ev))
		return nil
	case <-ctx.Done():
		select {
		case ev := <-k.events:
			copy(out, bytesOf(&ev))
			return nil
		default:
			return ctx.Err()
		}
	case <-k.closed:
		return os.ErrClosed
	}
}

func (k *fakeKernel) Descriptor(use func(uint32)) error { use(7); return nil }

func (k *fakeKernel) Close() error {
	select {
	case <-k.closed:
		return os.ErrClosed
	default:
		close(k.closed)
		return nil
	}
}

// report queues an event for handle, counting it as the kernel does; those of a
// membership count for its ID too.
func (k *fakeKernel) report(handle uint32, typ EventType, change func(*abi.RdmaUcmEventResp)) {
	k.mu.Lock()
	ev := abi.RdmaUcmEventResp{Uid: k.uids[handle], Id: handle, Event: uint32(typ)}
	k.reported[handle]++
	if id, ok := k.members[handle]; ok {
		k.reported[id]++
	}
	k.mu.Unlock()
	if change != nil {
		change(&ev)
	}
	k.events <- ev
}

func (k *fakeKernel) fail(cmd uint32, errno syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.errnos[cmd] = errno
}

func (k *fakeKernel) failOnce(cmd uint32, errno syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.errnos[cmd], k.once[cmd] = errno, true
}

func (k *fakeKernel) count(cmd uint32) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.calls {
		if c == cmd {
			n++
		}
	}
	return n
}

func body[T any](k *fakeKernel, cmd uint32) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return view[T](k.bodies[cmd])
}

// fakeQP records the states it is moved to.
type fakeQP struct {
	mu     sync.Mutex
	states []verbs.QPState
	attrs  []verbs.QPAttr
	masks  []verbs.QPAttrMask
	fail   map[verbs.QPState]error

	srq       *uverbs.SRQ
	groups    []verbs.GID // attached to
	groupFail error
}

func (q *fakeQP) QPN() uint32      { return 42 }
func (q *fakeQP) SRQ() *uverbs.SRQ { return q.srq }

func (q *fakeQP) Modify(a *verbs.QPAttr, m verbs.QPAttrMask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.fail[a.State]; err != nil {
		return err
	}
	q.states, q.attrs, q.masks = append(q.states, a.State), append(q.attrs, *a), append(q.masks, m)
	return nil
}

func (q *fakeQP) AttachMcast(gid verbs.GID, lid uint16) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.groupFail == nil {
		q.groups = append(q.groups, gid)
	}
	return q.groupFail
}

func (q *fakeQP) DetachMcast(gid verbs.GID, lid uint16) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.groupFail == nil {
		q.groups = slices.DeleteFunc(q.groups, func(g verbs.GID) bool { return g == gid })
	}
	return q.groupFail
}

func newTestID(t *testing.T, k *fakeKernel) *ID {
	t.Helper()
	id, err := newEventChannel(k).NewID(verbs.PortSpaceTCP, 0)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newDatagramID(t *testing.T, k *fakeKernel) *ID {
	t.Helper()
	id, err := newEventChannel(k).NewID(verbs.PortSpaceUDP, 0)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustGet(t *testing.T, ch *EventChannel) *Event {
	t.Helper()
	ev, err := ch.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// waiting fails if done receives anything before all goroutines of the bubble wait.
func waiting(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatal("it did not wait:", err)
	default:
	}
}
