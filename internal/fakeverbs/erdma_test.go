package fakeverbs

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// erdmaBench is a device with a queue pair that no request made, and memory.
type erdmaBench struct {
	*erdma
	q   *ERDMAQP
	mem []byte
}

func newERDMABench() *erdmaBench {
	k := New(abi.RDMA_DRIVER_ERDMA)
	b := &erdmaBench{erdma: k.model.(*erdma), mem: make([]byte, onePage)}
	k.Lend(lentAt, b.mem)
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_RC, Cap: abi.IbUverbsQpCap{MaxSendSge: 2}, state: abi.IB_QPS_RTS}
	k.device.add(qp)
	b.q = &ERDMAQP{e: b.erdma, qp: qp, record: lentAt, sq: lentAt + 1024, sqDepth: 8, rq: lentAt + 2048, rqDepth: 4}
	qp.ERDMA, qp.queues = b.q, b.q
	return b
}

// erdmaCall is a request with private bytes.
func erdmaCall(in, out int) *ioctl.Request {
	r := ioctl.New(abi.RDMA_DRIVER_ERDMA, 0, 0)
	r.Driver(make([]byte, in), make([]byte, out))
	return r
}

// check reads a send of empty blocks.
func (b *erdmaBench) check() *sendCheck {
	s := &erdmaSend{blocks: 2}
	s.Work = &s.work
	return &sendCheck{q: b.q, b: make([]byte, 2*erdmaEntry), erdmaSend: s}
}

// TestERDMANotes: the model notes each misuse that neither the tour of provider/erdma nor its
// mutations come to.
func TestERDMANotes(t *testing.T) {
	ring := func(v uint64) uint64 { return 1<<32 | v } // the doorbells of QP 1
	for want, misuse := range map[string]func(b *erdmaBench){
		"GET_CONTEXT carries 9 private bytes, and takes none": func(b *erdmaBench) { b.wantNoInput("GET_CONTEXT", erdmaCall(9, 0)) },
		"QP_CREATE carries 9 private bytes, and takes 24":     func(b *erdmaBench) { _, _ = erdmaInput[abi.ErdmaUreqCreateQp](b.erdma, "QP_CREATE", erdmaCall(9, 0)) },
		"QP_CREATE has room for 9 private bytes, and the":     func(b *erdmaBench) { _ = answerWhole(b.erdma, "QP_CREATE", erdmaCall(0, 9), abi.ErdmaUrespCreateQp{}) },
		"it asks for no completion, though its QP does for all": func(b *erdmaBench) {
			b.q.qp.Flags = abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
			b.check().checkHeader()
		},
		"the device has no atomics": func(b *erdmaBench) { b.k.ERDMA.NoAtomics = true; b.check().atomic() },
		"CQ 0: its memory is gone": func(b *erdmaBench) {
			(&ERDMACQ{e: b.erdma, cq: &CQ{Entries: 4}, ring: gapAt}).write(new([erdmaEntry]byte))
		},
		"QP 1: its send queue is gone":    func(b *erdmaBench) { b.q.sq = gapAt; b.q.takeSends(1) },
		"QP 1: its receive queue is gone": func(b *erdmaBench) { b.q.rq = gapAt; b.q.takeRecv(0) },
		"QP 1: 5 receives are not completed, of a queue of 4": func(b *erdmaBench) {
			b.q.recvs = make([]*Recv, 4)
			binary.LittleEndian.PutUint64(b.mem[8:], ring(1))
			b.q.recvDoorbell(1*32, ring(1))
		},
	} {
		b := newERDMABench()
		if misuse(b); !strings.Contains(strings.Join(b.k.Violations(), "\n"), want) {
			t.Errorf("want %q, got %q", want, b.k.Violations())
		}
	}
}

// TestERDMAQueueLength: the length of a CQ's memory is that of its entries.
func TestERDMAQueueLength(t *testing.T) {
	b := newERDMABench()
	const ring = lentAt + 2*onePage
	b.k.Lend(ring, make([]byte, 2*onePage))
	in := abi.ErdmaUreqCreateCq{QbufVa: ring, QbufLen: 2 * erdmaPage}
	r := ioctl.New(abi.RDMA_DRIVER_ERDMA, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.Driver(abi.Bytes(&in), make([]byte, 16))
	if err := b.createCQ(&CQ{k: b.k, Entries: 4}, r); err == nil {
		t.Error("no error")
	}
	if all := strings.Join(b.k.Violations(), "\n"); !strings.Contains(all, "CQ_CREATE: 4 entries take 128 bytes, and the queue has 8192") {
		t.Error(all)
	}
}
