package mlx5

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
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
	uar *uar
	cq  *CQ
	mem []byte
}

func newBench() *bench {
	k := fakeverbs.New(abi.RDMA_DRIVER_MLX5)
	b := &bench{model: k.Model.(*model), mem: make([]byte, onePage)}
	k.Lend(lentAt, b.mem)
	b.version, b.perPage, b.static = 1, 1, 16
	b.uars, b.records, b.indexes, b.cqs = make(map[int64]*uar), make(map[uint64]bool), make(map[uint32]bool), make(map[uint32]*CQ)
	b.uar = b.addUAR(0, 0, true)
	qp := fakeverbs.NewQP(k, &fakeverbs.QP{Type: abi.IB_UVERBS_QPT_RC, Cap: abi.IbUverbsQpCap{MaxSendSge: 2}, CurState: abi.IB_QPS_RTS})
	b.q = &QP{m: b.model, qp: qp, uar: b.uar, register: -1, record: lentAt, sq: ring{b.model, lentAt + 1024, 8}}
	b.q.rq = rq{q: b.q, addr: lentAt + 2048, entries: 4, size: 32}
	qp.SetQueues(b.q)
	k.Device.Add(qp)
	b.cq = &CQ{m: b.model, Num: 5, uar: b.uar, ring: lentAt + 3072, entries: 4, size: 64, record: lentAt + 64, cq: fakeverbs.NewCQ(k, &fakeverbs.CQ{})}
	b.cq.cq.Queue, b.cqs[5] = b.cq, b.cq
	return b
}

// frame reads an Ethernet segment with one byte that isn't zero.
func (c *reader) frame(at int, v byte) {
	c.rest[at] = v
	c.ethernet(false)
}

// readyWith moves a raw packet queue pair to RTR with a record of n receives.
func (b *bench) readyWith(n uint32) {
	b.be(0, n)
	b.q.qp.Type, b.q.qp.CurState = abi.IB_UVERBS_QPT_RAW_PACKET, abi.IB_QPS_INIT
	_ = b.ModifyQP(b.q.qp, &abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RTR})
}

// reader returns a reader of a send with these bytes.
func (b *bench) reader(rest ...byte) *reader {
	return &reader{send: &send{Work: new(fakeverbs.Work)}, q: b.q, rest: rest}
}

// be writes a word to the memory.
func (b *bench) be(at int, v uint32) { binary.BigEndian.PutUint32(b.mem[at:], v) }

// call returns a request with private bytes.
func call(object, method uint16, in, out int) *ioctl.Request {
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, object, method)
	r.Driver(make([]byte, in), make([]byte, out))
	return r
}

// TestMLX5Notes checks that the model records each misuse that neither the tours of provider/mlx5 nor
// its mutations cause.
func TestMLX5Notes(t *testing.T) {
	const recordOfSends, recordOfSRQ = 4, 128
	srq := func(b *bench) *SRQ {
		return &SRQ{Num: 3, m: b.model, addr: lentAt, entries: 4, size: 32, record: lentAt + recordOfSRQ}
	}
	for want, misuse := range map[string]func(b *bench){
		// calls
		"CQ_CREATE carries 4 private bytes, and takes":          func(b *bench) { _, _ = input[abi.Mlx5IbCreateCq](b.model, "CQ_CREATE", call(0, 0, 4, 0), 1) },
		"CQ_CREATE has room for 4 private bytes, and the":       func(b *bench) { _ = answer(b.model, "CQ_CREATE", call(0, 0, 0, 4), abi.Mlx5IbCreateCqResp{}) },
		"REG_MR carries 9 private bytes":                        func(b *bench) { _, _ = b.RegMR(0, call(0, 0, 9, 0)) },
		"CREATE_AH on InfiniBand":                               func(b *bench) { b.options.Infiniband = true; _ = b.CreateAH(nil, nil) },
		"CQ_CREATE: flags beside the UAR's is 0x1":              func(b *bench) { b.createFlagged(1) },
		"stands in the cache line of another":                   func(b *bench) { _ = b.pinRecord("QP_CREATE", lentAt); _ = b.pinRecord("QP_CREATE", lentAt+8) },
		"CQ_CREATE names UAR 4 in a context without":            func(b *bench) { b.nameUAR(4, abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) },
		"CQ_CREATE: the UAR's number, without its flag, is 0x4": func(b *bench) { b.nameUAR(4, 0) },
		"QP_CREATE: index 9 is that of another QP":              func(b *bench) { b.indexes[9] = true; _ = b.q.checkIndex(9) },
		"SRQ_CREATE: index 9 is that of another object":         func(b *bench) { b.indexes[9] = true; _ = b.xrcIndex(new(SRQ), 9) },
		"QP_CREATE names UAR 4 in a context without":            func(b *bench) { b.takeRegister(abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, 4) },
		"QP_CREATE: the number of a register is 0x4":            func(b *bench) { b.takeRegister(0, 4) },
		"a UAR for copies, of a device that has no registers":   func(b *bench) { b.options.NoBlueFlame = true; b.allocUAR() },

		// queues
		"a send before it is ready to send":                         func(b *bench) { b.q.qp.CurState = abi.IB_QPS_INIT; b.q.doorbell(make([]byte, 8)) },
		"a copy of a send, with 1 others":                           func(b *bench) { b.q.checkCopy(make([]byte, 64), b.copied(64), 2) },
		"a copy of 320 bytes, to a register that takes 256":         func(b *bench) { b.q.checkCopy(make([]byte, 320), b.copied(320), 1) },
		"a copy of 64 bytes of a send that has 128":                 func(b *bench) { b.q.checkCopy(make([]byte, 64), b.copied(128), 1) },
		"receive 0 is posted where another is not completed":        func(b *bench) { b.be(0, 1); b.q.rq.busy = []uint32{0}; b.q.rq.oldest() },
		"a receive has an SGE of 0x80000001 bytes":                  func(b *bench) { b.be(0, 1<<31|1); b.scatter(b.q, new(fakeverbs.Recv), b.mem[:16]) },
		"SRQ 3: its record is 0x10001, which has more than 16 bits": func(b *bench) { b.be(recordOfSRQ, 0x10001); srq(b).oldest() },
		"SRQ 3: the record counts 4 receives, and 0":                func(b *bench) { b.be(recordOfSRQ, 4); srq(b).oldest() },
		"SRQ 3: its list leads to entry 0, which is not":            func(b *bench) { b.be(recordOfSRQ, 1); s := srq(b); s.busy = []uint16{0}; s.oldest() },
		"CQ 5: the record says that 9 were consumed, of 0":          func(b *bench) { b.be(64, 9); b.cq.hasRoom() },
		"CQ 5: its memory is gone":                                  func(b *bench) { b.cq.ring = gapAt; b.cq.at(0) },
		"QP 2: its send queue is gone":                              func(b *bench) { b.q.sq.addr = gapAt; b.be(recordOfSends, 1); b.q.doorbell(make([]byte, 8)) },
		"QP 2: its receive queue is gone":                           func(b *bench) { b.q.rq.addr = gapAt; b.be(0, 1); b.q.rq.oldest() },
		"SRQ 3: its memory is gone":                                 func(b *bench) { s := srq(b); s.addr = gapAt; b.be(recordOfSRQ, 1); s.oldest() },
		"CQ 6: its memory is gone":                                  func(b *bench) { b.cq.Num, b.cq.ring = 6, gapAt; b.cq.wantInvalid("CQ_CREATE") },
		"the doorbell record at 0x90000 is gone":                    func(b *bench) { b.load(b.q, 1, gapAt) },

		// registers
		"a store to a page of registers that is gone, at 0x2000": func(b *bench) { b.Watch(0x2000, mmap.Store{Kind: mmap.StoreWC}) },
		"without the barriers of memory that combines writes":    func(b *bench) { b.Watch(0, mmap.Store{Kind: mmap.StorePlain, Offset: uarSend}) },
		"a copy of 64 bytes ends too early":                      func(b *bench) { b.copyOf(8, uarSend); b.Watch(0, mmap.Store{Kind: mmap.FlushWC, Offset: uarSend}) },
		"the next 64 bytes of a copy go to 0x980, not 0x840":     func(b *bench) { b.copyOf(8, uarSend); b.copyOf(8, 0x980) },
		"a copy to 0xc00, where it has no register":              func(b *bench) { b.copyOf(8, 0xc00) },
		"a copy to a page that takes words only":                 func(b *bench) { b.uar.wc = false; b.copyOf(8, uarSend) },
		"a copy to a register that takes words only":             func(b *bench) { b.uar.wc = false; b.uar.send(uarSend, []byte{6: 2, 15: 0}) },
		"CQ 5: the doorbell says 0x1, and its record 0x1000005":  func(b *bench) { b.be(68, 1<<24|5); b.uar.arm(1<<32 | 5) },
		"it is armed through UAR 1, and belongs to 0":            func(b *bench) { b.addUAR(onePage, 1, true).arm(5) },

		// requests
		"unknown rights of a key: 0x80": func(b *bench) {
			b.reader(make([]byte, 64)...).binding(append(make([]byte, 2), append([]byte{0x80}, make([]byte, 61)...)...), 0, 0)
		},
		"reserved bits of the address are set": func(b *bench) {
			b.options.Infiniband = true
			b.reader().address(append(make([]byte, 28), append([]byte{0x80}, make([]byte, 19)...)...))
		},
		"an address of InfiniBand, which has no MAC,": func(b *bench) {
			b.options.Infiniband = true
			b.reader().address(append(make([]byte, 20), append([]byte{1}, make([]byte, 27)...)...))
		},
		"the port of UDP is 0xbfff": func(b *bench) {
			b.reader().roce(&abi.IbUverbsAhAttr{Grh: abi.IbUverbsGlobalRoute{SgidIndex: 1}}, make([]byte, 6), 0xbfff)
		},
		"it asks for no completion, though its QP does for all": func(b *bench) { b.q.qp.Flags = abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL; b.reader().flags(0) },
		"it does not wait for the change of a key before it":    func(b *bench) { b.q.keys = true; b.reader().flags(0) },
		"the device has no atomics":                             func(b *bench) { b.options.NoAtomics = true; b.reader(make([]byte, 16)...).operands() },
		"8 bytes are left for an Ethernet segment of 16":        func(b *bench) { b.reader(make([]byte, 8)...).ethernet(false) },
		"16 bytes are left for an Ethernet segment of 32":       func(b *bench) { b.reader(make([]byte, 16)...).frame(13, 18) },
		"an MSS of 7, and nothing is cut":                       func(b *bench) { b.reader(make([]byte, 16)...).frame(7, 7) },
		"a TSO has 54 bytes of headers, and an MSS of 0": func(b *bench) {
			b.reader(append([]byte{13: 54}, make([]byte, 66)...)...).ethernet(true)
		},
		"a TSO has 13 bytes of headers, and an MSS of 256": func(b *bench) {
			b.reader(append([]byte{6: 1, 13: 13}, make([]byte, 18)...)...).ethernet(true)
		},
		"a TSO has 14 bytes of headers, and an MSS of 256": func(b *bench) {
			b.options.InlineHeaders = true
			b.reader(append([]byte{6: 1, 13: 14}, make([]byte, 18)...)...).ethernet(true)
		},
		"0 bytes of the frame are in the request, and the":        func(b *bench) { b.options.InlineHeaders = true; b.reader(make([]byte, 32)...).ethernet(false) },
		"the checksums to fill in are 0x40":                       func(b *bench) { b.reader(make([]byte, 16)...).frame(4, 0x40) },
		"reserved bytes of an Ethernet segment are set: 00000001": func(b *bench) { b.reader(make([]byte, 16)...).frame(3, 1) },
		"reserved bytes of an Ethernet segment are set: 0000000a": func(b *bench) { b.reader(make([]byte, 16)...).frame(11, 10) },
		"reserved bytes of an Ethernet segment are set: 06":       func(b *bench) { b.reader(make([]byte, 16)...).frame(5, 6) },
		"reserved bytes of an Ethernet segment are set: 0005":     func(b *bench) { b.reader(make([]byte, 16)...).frame(15, 5) },
		"QP 2: its record of receives is 3 before it is ready":    func(b *bench) { b.readyWith(3) },
		"WQ 3: its record is 1 when it becomes ready": func(b *bench) {
			b.be(0, 1)
			_ = b.ModifyWQ(&fakeverbs.WQ{Num: 3, Queue: b.q}, &abi.IbUverbsExModifyWq{AttrMask: fakeverbs.WQAttrState, WqState: fakeverbs.WQReady}, call(0, 0, 8, 0))
		},
		"operation 0x8 is none of its QP": func(b *bench) {
			b.q.qp.Type = abi.IB_UVERBS_QPT_RAW_PACKET
			c := b.reader()
			c.code, c.mask = 8, make([]byte, 16)
			c.segments()
		},
		"operation 0x0 has inline data": func(b *bench) {
			b.reader(append([]byte{0x80, 0, 0, 12}, make([]byte, 12)...)...).data(new(parts))
		},
	} {
		b := newBench()
		if misuse(b); !strings.Contains(strings.Join(b.k.Violations(), "\n"), want) {
			t.Errorf("want %q, got %q", want, b.k.Violations())
		}
	}
}

// exited is the memory of a process that has ended.
type exited struct{ fakeverbs.Memory }

func (exited) Read(uint64, []byte) error { return syscall.ESRCH }

// TestExitedInCreate checks that a process that is killed while it creates a CQ has not misused the
// device.
func TestExitedInCreate(t *testing.T) {
	b := newBench()
	b.k.User = exited{b.k.User}
	if b.cq.wantInvalid("CQ_CREATE"); len(b.k.Violations()) > 0 {
		t.Errorf("got %q", b.k.Violations())
	}
}

// nameUAR makes a CQ in a context without dynamic UARs.
func (b *bench) nameUAR(number uint16, flags uint16) {
	in := abi.Mlx5IbCreateCq{Flags: flags}
	in.UarPageIndex = number
	_, _ = b.uarOfCQ(&in, call(0, 0, 0, 0))
}

// createFlagged makes a CQ.
func (b *bench) createFlagged(flags uint16) {
	in := abi.Mlx5IbCreateCq{BufAddr: lentAt, DbAddr: lentAt + 1024, CqeSize: 64, Flags: flags}
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.Driver(abi.Bytes(&in), make([]byte, 16))
	_ = b.CreateCQ(fakeverbs.NewCQ(b.k, &fakeverbs.CQ{}), r)
}

// takeRegister makes a QP in such a context.
func (b *bench) takeRegister(flags, number uint32) {
	_ = b.q.takeUAR(&abi.Mlx5IbCreateQp{Flags: flags, BfregIndex: number}, new(abi.Mlx5IbCreateQpResp))
}

// allocUAR asks for registers that take copies.
func (b *bench) allocUAR() {
	r := ioctl.New(abi.RDMA_DRIVER_MLX5, abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC)
	r.NewObject(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
	r.Const(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
	_ = allocUAR(b.k, r)
}

// copied returns a send that has as many bytes.
func (b *bench) copied(n int) *send { return &send{raw: make([]byte, n)} }

// copyOf stores the first 64 bytes of a send of as many segments.
func (b *bench) copyOf(segments byte, offset int) {
	b.Copy64(0, offset, [64]byte{6: 1, 7: segments})
}

// TestOthersWays has what programs with queues of their own do, and the device takes.
func TestOthersWays(t *testing.T) {
	b := newBench()
	b.options.OldBytes = true
	s := &SRQ{Num: 3, m: b.model, srq: new(fakeverbs.SRQ), faulted: -1, addr: lentAt + 512, entries: 4, size: 32, record: lentAt + 128}
	b.be(128, 1)
	copy(b.mem[512:], []byte{1, 2, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	b.be(512+20, 0x100)
	if _, ok := s.take(); !ok || s.next != 3 {
		t.Errorf("a receive with notes in its entry: %v, followed by %d", ok, s.next)
	}

	nop := b.reader(0x80, 0, 0, 0)
	nop.code, nop.mask = 0, make([]byte, 16)
	if nop.segments(); nop.Opcode != fakeverbs.NOP {
		t.Errorf("NOP is operation %#x", nop.Opcode)
	}

	both := b.reader(0x80, 0, 0, 3, 'u', 'c', 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0)
	both.data(&parts{inline: true})
	if string(both.Front) != "ucx" || both.Inline != nil || both.Len() != 12 || len(both.SGL) != 1 {
		t.Errorf("a header in the request and data in memory: %+v", both.Work)
	}

	attr := abi.IbUverbsAhAttr{PortNum: 1, IsGlobal: 1}
	attr.Grh.SgidIndex, attr.Grh.FlowLabel, attr.Grh.Dgid = 1, ^uint32(0), fakeverbs.IPv4GID
	b.k.Add("AH", &fakeverbs.AH{Attr: attr}, func() {})
	sent := attr
	sent.Grh.FlowLabel &= flowLabel
	to := b.reader()
	mac := mlx5MAC(attr.Grh.Dgid)
	if to.roce(&sent, mac[:], uint16(flowLabel&0x3fff^flowLabel>>14)|0xc000); to.To.AH == nil {
		t.Error("an address with more bits than a flow label has is not found")
	}
	if v := b.k.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

// TestFetchedInCompletions checks which READs and atomics come in completions.
func TestFetchedInCompletions(t *testing.T) {
	for _, c := range []struct {
		all, any bool
		flags    uint32
		want     bool
	}{
		{false, false, abi.IB_SEND_SIGNALED, false}, {true, false, abi.IB_SEND_SIGNALED, true},
		{false, true, abi.IB_SEND_SIGNALED, true}, {false, true, 0, false},
	} {
		b := newBench()
		b.q.qp.SendCQ, b.q.scattersAny = b.cq.cq, c.any
		if c.all {
			b.q.qp.Flags = abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
		}
		if got := b.q.KeepFetched(&fakeverbs.Work{Flags: c.flags}, make([]byte, 8)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestPacketType(t *testing.T) {
	for want, p := range map[uint32]fakeverbs.Packet{0: {}, 9: {IPv6: true, UDP: true}, 10: {IPv4: true, UDP: true}} {
		if got := packetType(&p); got != want {
			t.Errorf("%+v: %d, want %d", p, got, want)
		}
	}
}
