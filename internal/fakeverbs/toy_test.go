package fakeverbs_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// toyDriver is the number of a driver that has no package.
const toyDriver = 1000

// toyQP is the device's side of a queue pair whose requests are Go values from a test.
type toyQP struct {
	fakeverbs.Gone
	qp    *fakeverbs.QP
	sends []*fakeverbs.Work
	recvs []*fakeverbs.Recv
}

func (q *toyQP) NextSend() (*fakeverbs.Work, bool) {
	if len(q.sends) == 0 {
		return nil, false
	}
	w := q.sends[0]
	q.sends = q.sends[1:]
	return w, true
}

func (q *toyQP) SendDone(w *fakeverbs.Work, status uint32, completes bool) {
	if completes {
		toyCQOf(q.qp.SendCQ).complete(abi.IbUverbsWc{WrId: w.ID, Status: status, ByteLen: w.Len()})
	}
}

func (q *toyQP) NextRecv() (*fakeverbs.Recv, bool) {
	if len(q.recvs) == 0 {
		return nil, false
	}
	r := q.recvs[0]
	q.recvs = q.recvs[1:]
	return r, true
}

func (q *toyQP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, _ bool) {
	toyCQOf(q.qp.RecvCQ).complete(wc)
}

// EnterError flushes nothing, because the test posts no work that remains.
func (q *toyQP) EnterError() { q.qp.CurState = abi.IB_QPS_ERR }

// toyCQ is a completion queue that records its completions.
type toyCQ struct{ done []abi.IbUverbsWc }

func toyCQOf(cq *fakeverbs.CQ) *toyCQ { return cq.Queue.(*toyCQ) }

func (c *toyCQ) complete(wc abi.IbUverbsWc) { c.done = append(c.done, wc) }
func (*toyCQ) IsArmed() bool                { return false }
func (*toyCQ) Free()                        {}

// toy is a model with queues of Go values. It refuses the same requests as drivers of hardware.
type toy struct{ fakeverbs.Bare }

func (toy) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	if err := (fakeverbs.Bare{}).CreateCQ(cq, r); err != nil {
		return err
	}
	cq.Queue = &toyCQ{}
	return nil
}

func (toy) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if err := (fakeverbs.Bare{}).CreateQP(qp, r); err != nil {
		return err
	}
	qp.SetQueues(&toyQP{qp: qp})
	return nil
}

func toyLimits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	l.Device.VendorId = 0x70f
	return l
}

func init() {
	fakeverbs.Register(&fakeverbs.Driver{ID: toyDriver, Limits: toyLimits, New: func(*fakeverbs.Kernel) fakeverbs.Model { return toy{} }})
}

// TestToyDevice adds a device that no other file of the module knows, and sends a message over it. It shows
// that a new device adds files and changes none.
func TestToyDevice(t *testing.T) {
	k := fakeverbs.NewDevice(toyDriver).Open()
	do := func(r *ioctl.Request) {
		t.Helper()
		if err := r.Do(k); err != nil {
			t.Fatal(err)
		}
	}
	context := ioctl.New(toyDriver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	context.Driver(nil, make([]byte, 8))
	do(context)
	write := func(r *ioctl.Request, out []byte) {
		t.Helper()
		r.OutBytes(abi.UVERBS_ATTR_CORE_OUT, out)
		do(r)
	}
	write(ioctl.Write(toyDriver, abi.IB_USER_VERBS_CMD_ALLOC_PD, &abi.IbUverbsAllocPd{}), make([]byte, 4))

	mem := []byte("a message, and room for it: ............")
	const at = 0x10000
	k.Lend(at, mem)
	reg := abi.IbUverbsRegMr{Start: at, HcaVa: at, Length: uint64(len(mem)), AccessFlags: abi.IB_UVERBS_ACCESS_LOCAL_WRITE}
	write(ioctl.Write(toyDriver, abi.IB_USER_VERBS_CMD_REG_MR, &reg), make([]byte, 12))

	cq := ioctl.New(toyDriver, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	cq.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	cq.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 4)
	cq.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1)
	cq.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0)
	ioctl.Out(cq, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32))
	do(cq)
	handle := cq.Created(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	for range 2 {
		do(toyQPRequest(handle))
	}

	from, to := k.QueuePairs()[0], k.QueuePairs()[1]
	from.Connect(0, 0)
	to.Connect(0, 0)
	key := k.MRs()[0].Key
	from.Made.(*toyQP).sends = []*fakeverbs.Work{{ID: 1, Opcode: abi.IB_UVERBS_WR_SEND, Flags: abi.IB_SEND_SIGNALED, SGL: []fakeverbs.SGE{{Addr: at, Length: 9, LKey: key}}}}
	to.Made.(*toyQP).recvs = []*fakeverbs.Recv{{ID: 2, SGL: []fakeverbs.SGE{{Addr: at + 28, Length: 12, LKey: key}}}}
	carry(t, from, to)
	if !bytes.HasSuffix(mem, []byte("a message...")) {
		t.Errorf("%q", mem)
	}
	done := toyCQOf(from.SendCQ).done
	if len(done) != 2 || done[0].WrId != 2 || done[0].ByteLen != 9 || done[1].WrId != 1 || done[1].Status != abi.IB_WC_SUCCESS {
		t.Errorf("%+v", done)
	}
	if _, ok := from.TakeSend(); ok || from.Num != 1 || to.Num != 2 {
		t.Errorf("QPs %d and %d", from.Num, to.Num)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := context.Do(k); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}

func toyQPRequest(cq uint32) *ioctl.Request {
	r := ioctl.New(toyDriver, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	r.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq)
	r.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 1)
	caps := abi.IbUverbsQpCap{MaxSendWr: 1, MaxRecvWr: 1, MaxSendSge: 1, MaxRecvSge: 1}
	ioctl.In(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &caps)
	r.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, abi.IB_UVERBS_QPT_RC)
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, new(abi.IbUverbsQpCap))
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, new(uint32))
	return r
}

// carry acts as the network: it takes a send and a receive, copies the data, and completes both.
func carry(t *testing.T, from, to *fakeverbs.QP) {
	t.Helper()
	w, ok := from.TakeSend()
	r, found := to.TakeRecv()
	if !ok || !found {
		t.Fatal("nothing to carry")
	}
	data := make([]byte, w.Len())
	if !from.ReadSGE(w.SGL[0], data) || !to.WriteSGE(r.SGL[0], data) {
		t.Fatal("the memory can't be used")
	}
	to.Received(r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(data))}, false)
	if !from.Sent(w, abi.IB_WC_SUCCESS) {
		t.Error("the send was flushed")
	}
}
