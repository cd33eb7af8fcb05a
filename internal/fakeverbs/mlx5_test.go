package fakeverbs

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

const (
	lentAt  = 0x10000 // memory of the test's
	gapAt   = 0x90000 // there is none
	onePage = 4096
)

// mlx5Bench is a device with a queue pair that no request made, and memory.
type mlx5Bench struct {
	*mlx5
	q   *MLX5QP
	uar *mlx5UAR
	cq  *MLX5CQ
	mem []byte
}

func newMLX5Bench() *mlx5Bench {
	k := New(abi.RDMA_DRIVER_MLX5)
	b := &mlx5Bench{mlx5: k.model.(*mlx5), mem: make([]byte, onePage)}
	k.Lend(lentAt, b.mem)
	b.version = 1
	b.uars, b.records, b.indexes, b.cqs = make(map[int64]*mlx5UAR), make(map[uint64]bool), make(map[uint32]bool), make(map[uint32]*MLX5CQ)
	b.uar = b.addUAR(0, 0, true)
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_RC, Cap: abi.IbUverbsQpCap{MaxSendSge: 2}, state: abi.IB_QPS_RTS}
	b.q = &MLX5QP{m: b.mlx5, qp: qp, uar: b.uar, register: -1, record: lentAt, sq: mlx5Ring{b.mlx5, lentAt + 1024, 8}}
	b.q.rq = mlx5RQ{q: b.q, addr: lentAt + 2048, entries: 4, size: 32}
	qp.MLX5, qp.queues = b.q, b.q
	k.device.add(qp)
	b.cq = &MLX5CQ{m: b.mlx5, Num: 5, uar: b.uar, ring: lentAt + 3072, entries: 4, size: 64, record: lentAt + 64, cq: &CQ{k: k}}
	b.cq.cq.MLX5, b.cqs[5] = b.cq, b.cq
	return b
}

// frame reads an Ethernet segment in which one byte is set.
func (c *mlx5Reader) frame(at int, v byte) {
	c.rest[at] = v
	c.ethernet()
}

// readyWith has a raw packet's queue pair become ready to receive with a record of n receives.
func (b *mlx5Bench) readyWith(n uint32) {
	b.be(0, n)
	b.q.qp.Type, b.q.qp.state = abi.IB_UVERBS_QPT_RAW_PACKET, abi.IB_QPS_INIT
	_ = b.modifyQP(b.q.qp, &abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RTR})
}

// reader reads a send of these bytes.
func (b *mlx5Bench) reader(rest ...byte) *mlx5Reader {
	c := &mlx5Reader{mlx5Send: new(mlx5Send), q: b.q, rest: rest}
	c.Work = &c.work
	return c
}

// be puts a word into the memory.
func (b *mlx5Bench) be(at int, v uint32) { binary.BigEndian.PutUint32(b.mem[at:], v) }

// call is a request with private bytes.
func call(object, method uint16, in, out int) *ioctl.Request {
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, object, method)
	r.Driver(make([]byte, in), make([]byte, out))
	return r
}

// TestMLX5Notes: the model notes each misuse that neither the tours of provider/mlx5 nor its
// mutations come to.
func TestMLX5Notes(t *testing.T) {
	const recordOfSends, recordOfSRQ = 4, 128
	srq := func(b *mlx5Bench) *MLX5SRQ {
		return &MLX5SRQ{Num: 3, m: b.mlx5, addr: lentAt, entries: 4, size: 32, record: lentAt + recordOfSRQ}
	}
	for want, misuse := range map[string]func(b *mlx5Bench){
		// calls
		"CQ_CREATE carries 4 private bytes, and takes":          func(b *mlx5Bench) { _, _ = mlx5Input[abi.Mlx5IbCreateCq](b.mlx5, "CQ_CREATE", call(0, 0, 4, 0), 1) },
		"CQ_CREATE has room for 4 private bytes, and the":       func(b *mlx5Bench) { _ = mlx5Answer(b.mlx5, "CQ_CREATE", call(0, 0, 0, 4), abi.Mlx5IbCreateCqResp{}) },
		"REG_MR carries 9 private bytes":                        func(b *mlx5Bench) { _, _ = b.regMR(0, call(0, 0, 9, 0)) },
		"CREATE_AH on InfiniBand":                               func(b *mlx5Bench) { b.k.MLX5.Infiniband = true; _ = b.createAH(nil, nil) },
		"CQ_CREATE: flags beside the UAR's is 0x1":              func(b *mlx5Bench) { b.createFlagged(1) },
		"stands in the cache line of another":                   func(b *mlx5Bench) { _ = b.pinRecord("QP_CREATE", lentAt); _ = b.pinRecord("QP_CREATE", lentAt+8) },
		"CQ_CREATE names UAR 4 in a context without":            func(b *mlx5Bench) { b.nameUAR(4, abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) },
		"CQ_CREATE: the UAR's number, without its flag, is 0x4": func(b *mlx5Bench) { b.nameUAR(4, 0) },
		"QP_CREATE: index 9 is that of another QP":              func(b *mlx5Bench) { b.indexes[9] = true; _ = b.q.checkIndex(9) },
		"SRQ_CREATE: index 9 is that of another object":         func(b *mlx5Bench) { b.indexes[9] = true; _ = b.xrcIndex(new(MLX5SRQ), 9) },
		"QP_CREATE names UAR 4 in a context without":            func(b *mlx5Bench) { b.takeRegister(abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, 4) },
		"QP_CREATE: the number of a register is 0x4":            func(b *mlx5Bench) { b.takeRegister(0, 4) },
		"a UAR for copies, of a device that has no registers":   func(b *mlx5Bench) { b.k.MLX5.NoBlueFlame = true; b.allocUAR() },

		// queues
		"a send before it is ready to send":                         func(b *mlx5Bench) { b.q.qp.state = abi.IB_QPS_INIT; b.q.doorbell(make([]byte, 8)) },
		"a copy of a send, with 1 others":                           func(b *mlx5Bench) { b.q.checkCopy(make([]byte, 64), b.copied(64), 2) },
		"a copy of 320 bytes, to a register that takes 256":         func(b *mlx5Bench) { b.q.checkCopy(make([]byte, 320), b.copied(320), 1) },
		"a copy of 64 bytes of a send that has 128":                 func(b *mlx5Bench) { b.q.checkCopy(make([]byte, 64), b.copied(128), 1) },
		"receive 0 is posted where another is not completed":        func(b *mlx5Bench) { b.be(0, 1); b.q.rq.busy = []uint32{0}; b.q.rq.oldest() },
		"a receive has an SGE of 0x80000001 bytes":                  func(b *mlx5Bench) { b.be(0, 1<<31|1); b.scatter(b.q, new(Recv), b.mem[:16]) },
		"SRQ 3: its record is 0x10001, which has more than 16 bits": func(b *mlx5Bench) { b.be(recordOfSRQ, 0x10001); srq(b).oldest() },
		"SRQ 3: the record tells of 4 receives, and 0":              func(b *mlx5Bench) { b.be(recordOfSRQ, 4); srq(b).oldest() },
		"SRQ 3: its list leads to entry 0, which is not":            func(b *mlx5Bench) { b.be(recordOfSRQ, 1); s := srq(b); s.busy = []uint16{0}; s.oldest() },
		"CQ 5: the record says that 9 were consumed, of 0":          func(b *mlx5Bench) { b.be(64, 9); b.cq.hasRoom() },
		"CQ 5: its memory is gone":                                  func(b *mlx5Bench) { b.cq.ring = gapAt; b.cq.at(0) },
		"QP 1: its send queue is gone":                              func(b *mlx5Bench) { b.q.sq.addr = gapAt; b.be(recordOfSends, 1); b.q.doorbell(make([]byte, 8)) },
		"QP 1: its receive queue is gone":                           func(b *mlx5Bench) { b.q.rq.addr = gapAt; b.be(0, 1); b.q.rq.oldest() },
		"SRQ 3: its memory is gone":                                 func(b *mlx5Bench) { s := srq(b); s.addr = gapAt; b.be(recordOfSRQ, 1); s.oldest() },
		"CQ 6: its memory is gone":                                  func(b *mlx5Bench) { b.cq.Num, b.cq.ring = 6, gapAt; b.cq.wantInvalid("CQ_CREATE") },
		"the doorbell record at 0x90000 is gone":                    func(b *mlx5Bench) { b.load(b.q, 1, gapAt) },

		// registers
		"a store to a page of registers that is gone, at 0x2000": func(b *mlx5Bench) { b.watch(0x2000, mmap.Store{Kind: mmap.StoreWC}) },
		"without the barriers of memory that combines writes":    func(b *mlx5Bench) { b.watch(0, mmap.Store{Kind: mmap.StorePlain, Offset: mlx5UARSend}) },
		"a copy of 64 bytes ends too early":                      func(b *mlx5Bench) { b.copyOf(8, mlx5UARSend); b.watch(0, mmap.Store{Kind: mmap.FlushWC}) },
		"the next 64 bytes of a copy go to 0xa00, not 0x840":     func(b *mlx5Bench) { b.copyOf(8, mlx5UARSend); b.copyOf(8, 0xa00) },
		"a copy to a page that takes words only":                 func(b *mlx5Bench) { b.uar.wc = false; b.copyOf(8, mlx5UARSend) },
		"a copy to a register that takes words only":             func(b *mlx5Bench) { b.uar.wc = false; b.uar.send(mlx5UARSend, []byte{6: 1, 15: 0}) },
		"it is armed through UAR 1, and belongs to 0":            func(b *mlx5Bench) { b.addUAR(onePage, 1, true).arm(5) },

		// requests
		"unknown rights of a key: 0x80": func(b *mlx5Bench) {
			b.reader(make([]byte, 64)...).binding(append(make([]byte, 2), append([]byte{0x80}, make([]byte, 61)...)...), 0, 0)
		},
		"reserved bits of the address are set": func(b *mlx5Bench) {
			b.k.MLX5.Infiniband = true
			b.reader().address(append(make([]byte, 28), append([]byte{0x80}, make([]byte, 19)...)...))
		},
		"an address of InfiniBand, which has no MAC,": func(b *mlx5Bench) {
			b.k.MLX5.Infiniband = true
			b.reader().address(append(make([]byte, 20), append([]byte{1}, make([]byte, 27)...)...))
		},
		"the port of UDP is 0xbfff": func(b *mlx5Bench) {
			b.reader().roce(&abi.IbUverbsAhAttr{Grh: abi.IbUverbsGlobalRoute{SgidIndex: 1}}, make([]byte, 6), 0xbfff)
		},
		"it asks for no completion, though its QP does for all":         func(b *mlx5Bench) { b.q.qp.Flags = abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL; b.reader().flags(0) },
		"it does not wait for the change of a key before it":            func(b *mlx5Bench) { b.q.keys = true; b.reader().flags(0) },
		"the device has no atomics":                                     func(b *mlx5Bench) { b.k.MLX5.NoAtomics = true; b.reader(make([]byte, 16)...).operands() },
		"8 bytes are left for an Ethernet segment of 16":                func(b *mlx5Bench) { b.reader(make([]byte, 8)...).ethernet() },
		"18 bytes of the frame are in the request, and":                 func(b *mlx5Bench) { b.reader(make([]byte, 16)...).frame(13, 18) },
		"0 bytes of the frame are in the request, and the":              func(b *mlx5Bench) { b.k.MLX5.InlineHeaders = true; b.reader(make([]byte, 32)...).ethernet() },
		"the checksums to fill in are 0x40":                             func(b *mlx5Bench) { b.reader(make([]byte, 16)...).frame(4, 0x40) },
		"reserved bytes of an Ethernet segment are set: 00000001":       func(b *mlx5Bench) { b.reader(make([]byte, 16)...).frame(3, 1) },
		"reserved bytes of an Ethernet segment are set: 0000000000000a": func(b *mlx5Bench) { b.reader(make([]byte, 16)...).frame(11, 10) },
		"reserved bytes of an Ethernet segment are set: 0005":           func(b *mlx5Bench) { b.reader(make([]byte, 16)...).frame(15, 5) },
		"QP 1: its record of receives is 3 before it is ready":          func(b *mlx5Bench) { b.readyWith(3) },
		"WQ 3: its record is 1 when it becomes ready": func(b *mlx5Bench) {
			b.be(0, 1)
			_ = b.modifyWQ(&WQ{Num: 3, MLX5: b.q}, &abi.IbUverbsExModifyWq{AttrMask: wqAttrState, WqState: wqReady}, call(0, 0, 8, 0))
		},
		"operation 0x8 is none of its QP": func(b *mlx5Bench) {
			b.q.qp.Type = abi.IB_UVERBS_QPT_RAW_PACKET
			c := b.reader()
			c.code, c.mask = 8, make([]byte, 16)
			c.segments()
		},
		"operation 0x0 has inline data": func(b *mlx5Bench) {
			b.reader(append([]byte{0x80, 0, 0, 12}, make([]byte, 12)...)...).data(new(mlx5Parts))
		},
	} {
		b := newMLX5Bench()
		if misuse(b); !strings.Contains(strings.Join(b.k.Violations(), "\n"), want) {
			t.Errorf("want %q, got %q", want, b.k.Violations())
		}
	}
}

// nameUAR makes a CQ in a context without dynamic UARs.
func (b *mlx5Bench) nameUAR(number uint16, flags uint16) {
	in := abi.Mlx5IbCreateCq{Flags: flags}
	in.UarPageIndex = number
	_, _ = b.uarOfCQ(&in, call(0, 0, 0, 0))
}

// createFlagged makes a CQ.
func (b *mlx5Bench) createFlagged(flags uint16) {
	in := abi.Mlx5IbCreateCq{BufAddr: lentAt, DbAddr: lentAt + 1024, CqeSize: 64, Flags: flags}
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.Driver(abi.Bytes(&in), make([]byte, 16))
	_ = b.createCQ(&CQ{k: b.k}, r)
}

// takeRegister makes a QP in such a context.
func (b *mlx5Bench) takeRegister(flags, number uint32) {
	_ = b.q.takeUAR(&abi.Mlx5IbCreateQp{Flags: flags, BfregIndex: number}, new(abi.Mlx5IbCreateQpResp))
}

// allocUAR asks for registers that take copies.
func (b *mlx5Bench) allocUAR() {
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC)
	r.NewObject(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
	r.Const(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
	_ = b.k.mlx5AllocUAR(r)
}

// copied is a send that has as many bytes.
func (b *mlx5Bench) copied(n int) *mlx5Send { return &mlx5Send{raw: make([]byte, n)} }

// copyOf stores the first 64 bytes of a send of as many segments.
func (b *mlx5Bench) copyOf(segments byte, offset int) {
	b.copy64(0, offset, [64]byte{6: 1, 7: segments})
}
