package erdma

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

const (
	lentAt  = 0x10000 // address of the test's memory
	gapAt   = 0x90000 // address without memory
	onePage = 4096
)

// bench is a device with a queue pair and memory that were created without requests.
type bench struct {
	*model
	q   *QP
	mem []byte
}

func newBench() *bench {
	k := fakeverbs.New(abi.RDMA_DRIVER_ERDMA)
	b := &bench{model: k.Model.(*model), mem: make([]byte, onePage)}
	k.Lend(lentAt, b.mem)
	qp := fakeverbs.NewQP(k, &fakeverbs.QP{Type: abi.IB_UVERBS_QPT_RC, Cap: abi.IbUverbsQpCap{MaxSendSge: 2}, CurState: abi.IB_QPS_RTS})
	k.Device.Add(qp)
	b.q = &QP{e: b.model, qp: qp, record: lentAt, sq: lentAt + 1024, sqDepth: 8, rq: lentAt + 2048, rqDepth: 4}
	qp.SetQueues(b.q)
	return b
}

// call returns a request with private bytes.
func call(in, out int) *ioctl.Request {
	r := ioctl.New(abi.RDMA_DRIVER_ERDMA, 0, 0)
	r.Driver(make([]byte, in), make([]byte, out))
	return r
}

// check returns a check of a send with empty blocks.
func (b *bench) check() *sendCheck {
	s := &send{Work: new(fakeverbs.Work), blocks: 2}
	return &sendCheck{q: b.q, b: make([]byte, 2*entry), send: s}
}

// TestERDMANotes checks that the model records each misuse that neither the tour of provider/erdma
// nor its mutations cause.
func TestERDMANotes(t *testing.T) {
	ring := func(v uint64) uint64 { return 1<<32 | v } // the doorbells of QP 1
	for want, misuse := range map[string]func(b *bench){
		"GET_CONTEXT carries 9 private bytes, and takes none": func(b *bench) { b.wantNoInput("GET_CONTEXT", call(9, 0)) },
		"QP_CREATE carries 9 private bytes, and takes 24":     func(b *bench) { _, _ = input[abi.ErdmaUreqCreateQp](b.model, "QP_CREATE", call(9, 0)) },
		"QP_CREATE has room for 9 private bytes, and the":     func(b *bench) { _ = answerWhole(b.model, "QP_CREATE", call(0, 9), abi.ErdmaUrespCreateQp{}) },
		"it asks for no completion, though its QP does for all": func(b *bench) {
			b.q.qp.Flags = abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
			b.check().checkHeader()
		},
		"the device has no atomics": func(b *bench) { b.options.NoAtomics = true; b.check().atomic() },
		"a datagram needs an address handle, and user space has none": func(b *bench) {
			b.q.qp.Type = abi.IB_UVERBS_QPT_UD
			b.check().run()
		},
		"QP 1: the record for sends is 0x5 when it leaves RESET": func(b *bench) {
			b.k.Device.SetRoCE()
			b.q.qp.CurState = abi.IB_QPS_RESET
			b.mem[0] = 5
			_ = b.ModifyQP(b.q.qp, &abi.IbUverbsModifyQp{QpState: abi.IB_QPS_INIT, PortNum: 1,
				AttrMask: abi.IB_QP_STATE | abi.IB_QP_PORT | abi.IB_QP_PKEY_INDEX | abi.IB_QP_ACCESS_FLAGS})
		},
		"CQ 3: the record of a CQ that was never armed is 0x0000000000000000, not 0xff00000330000000": func(b *bench) {
			(&CQ{e: b.model, Num: 3, cq: &fakeverbs.CQ{Entries: 4}, record: lentAt}).wantRecord("")
		},
		"CQ 0: its memory is gone": func(b *bench) {
			(&CQ{e: b.model, cq: &fakeverbs.CQ{Entries: 4}, ring: gapAt}).write(new([entry]byte))
		},
		"QP 1: its send queue is gone":    func(b *bench) { b.q.sq = gapAt; b.q.takeSends(1) },
		"QP 1: its receive queue is gone": func(b *bench) { b.q.rq = gapAt; b.q.takeRecv(0) },
		"QP 1: 5 receives are not completed, of a queue of 4": func(b *bench) {
			for range 4 {
				b.q.recvs.Push(nil)
			}
			binary.LittleEndian.PutUint64(b.mem[8:], ring(1))
			b.q.recvDoorbell(1*32, ring(1))
		},
	} {
		b := newBench()
		if misuse(b); !strings.Contains(strings.Join(b.k.Violations(), "\n"), want) {
			t.Errorf("want %q, got %q", want, b.k.Violations())
		}
	}
}

// TestERDMAQueueLength checks that the length of a CQ's memory matches its entries.
func TestERDMAQueueLength(t *testing.T) {
	b := newBench()
	const ring = lentAt + 2*onePage
	b.k.Lend(ring, make([]byte, 2*onePage))
	in := abi.ErdmaUreqCreateCq{QbufVa: ring, QbufLen: 2 * erdmaPage}
	r := ioctl.New(abi.RDMA_DRIVER_ERDMA, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.Driver(abi.Bytes(&in), make([]byte, 16))
	if err := b.CreateCQ(fakeverbs.NewCQ(b.k, &fakeverbs.CQ{Entries: 4}), r); err == nil {
		t.Error("no error")
	}
	if all := strings.Join(b.k.Violations(), "\n"); !strings.Contains(all, "CQ_CREATE: 4 entries take 128 bytes, and the queue has 8192") {
		t.Error(all)
	}
}
