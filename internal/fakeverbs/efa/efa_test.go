package efa

import (
	"encoding/binary"
	"errors"
	"slices"
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
	onePage = 4096
)

var le = binary.LittleEndian

// bench is an open device, used through requests and queues as a program's provider does.
type bench struct {
	t   *testing.T
	k   *fakeverbs.Kernel
	mem []byte
}

func newBench(t *testing.T, set func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, k: fakeverbs.New(abi.RDMA_DRIVER_EFA), mem: make([]byte, 4*onePage)}
	if set != nil {
		set(OptionsOf(b.k))
	}
	b.k.InBubble = true
	b.k.Lend(lentAt, b.mem)
	return b
}

// opened is newBench with a context.
func opened(t *testing.T, set func(*Options)) *bench {
	t.Helper()
	b := newBench(t, set)
	if _, err := b.context(3); err != nil {
		t.Fatal(err)
	}
	return b
}

// context creates the context with these capabilities of the library.
func (b *bench) context(caps uint32) (resp abi.EfaIbvAllocUcontextResp, err error) {
	r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	in := abi.EfaIbvAllocUcontextCmd{SupportedCaps: caps}
	r.Driver(abi.Bytes(&in), abi.Bytes(&resp))
	return resp, r.Do(b.k)
}

func (b *bench) pd() uint32 {
	b.t.Helper()
	var in abi.IbUverbsAllocPd
	var out abi.IbUverbsAllocPdResp
	var resp abi.EfaIbvAllocPdResp
	b.must(b.write(abi.IB_USER_VERBS_CMD_ALLOC_PD, &in, abi.Bytes(&out), nil, abi.Bytes(&resp)))
	if resp.Pdn == 0 {
		b.t.Error("no number of the PD")
	}
	return out.PdHandle
}

// write issues a command of the older interface.
func (b *bench) write(command uint32, in any, out, private, answer []byte) error {
	var r *ioctl.Request
	switch in := in.(type) {
	case *abi.IbUverbsAllocPd:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	case *abi.IbUverbsRegMr:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	case *abi.IbUverbsCreateAh:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	case *abi.IbUverbsModifyQp:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	case *abi.IbUverbsQueryQp:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	case *abi.IbUverbsExQueryDevice:
		r = ioctl.Write(abi.RDMA_DRIVER_EFA, command, in)
	}
	if out != nil {
		r.OutBytes(abi.UVERBS_ATTR_CORE_OUT, out)
	}
	r.Driver(private, answer)
	return r.Do(b.k)
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// mr registers the test's memory and returns its keys.
func (b *bench) mr(pd, access uint32) (lkey, rkey uint32, err error) {
	in := abi.IbUverbsRegMr{Start: lentAt, Length: uint64(len(b.mem)), HcaVa: lentAt, PdHandle: pd, AccessFlags: access}
	var out abi.IbUverbsRegMrResp
	err = b.write(abi.IB_USER_VERBS_CMD_REG_MR, &in, abi.Bytes(&out), nil, nil)
	return out.Lkey, out.Rkey, err
}

// ah creates an address handle and returns its number and its handle.
func (b *bench) ah(pd uint32, gid [16]byte) (num uint16, handle uint32, err error) {
	in := abi.IbUverbsCreateAh{PdHandle: pd}
	in.Attr.IsGlobal, in.Attr.PortNum, in.Attr.Grh.Dgid = 1, 1, gid
	var out abi.IbUverbsCreateAhResp
	var resp abi.EfaIbvCreateAhResp
	err = b.write(abi.IB_USER_VERBS_CMD_CREATE_AH, &in, abi.Bytes(&out), nil, abi.Bytes(&resp))
	return resp.EfaAddressHandle, out.AhHandle, err
}

func (b *bench) destroyAH(handle uint32) {
	b.t.Helper()
	r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, handle)
	b.must(r.Do(b.k))
}

// testCQ is a program's side of a completion queue.
type testCQ struct {
	handle uint32
	ring   []byte
	size   int
	read   uint32
	depth  uint32
	page   *mmap.Page
	dbAt   int
}

func (b *bench) cq(entries int, in abi.EfaIbvCreateCq) (*testCQ, error) {
	r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, uint32(entries))
	r.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 9)
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0)
	var got uint32
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &got)
	var resp abi.EfaIbvCreateCqResp
	r.Driver(abi.Bytes(&in), abi.Bytes(&resp))
	if err := r.Do(b.k); err != nil {
		return nil, err
	}
	ring, err := b.k.Map(int64(resp.QMmapKey), int(resp.QMmapSize), mmap.ProtRead)
	b.must(err)
	c := &testCQ{handle: r.Created(abi.UVERBS_ATTR_CREATE_CQ_HANDLE), ring: ring.Bytes(), size: int(in.CqEntrySize), depth: got, dbAt: int(resp.DbOff)}
	if resp.CompMask&abi.EFA_CREATE_CQ_RESP_DB_OFF != 0 {
		c.page, err = b.k.MapPage(int64(resp.DbMmapKey), onePage)
		b.must(err)
	}
	return c, nil
}

// poll returns the next entry, or nil.
func (c *testCQ) poll() []byte {
	e := c.ring[int(c.read&(c.depth-1))*c.size:][:c.size]
	if want := byte(1 - c.read/c.depth&1); e[3]&1 != want {
		return nil
	}
	c.read++
	if c.page != nil {
		c.page.Store32(c.dbAt, c.read&0xffff)
	}
	return slices.Clone(e)
}

// testQP is a program's side of a queue pair.
type testQP struct {
	*bench
	handle, num    uint32
	llq, sq, rqDB  *mmap.Page
	rq             []byte
	wqe            int
	entries        uint32
	sqPC, rqPC     uint32
	llqAt, sqAt    int
	rqAt           int
	descs          uint32
	sendCQ, recvCQ *testCQ
}

// qp creates a queue pair.
func (b *bench) qp(pd uint32, typ uint64, cap abi.IbUverbsQpCap, in abi.EfaIbvCreateQp, send, recv *testCQ) (*testQP, error) {
	r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	r.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, send.handle)
	r.Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, recv.handle)
	r.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 1)
	ioctl.In(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &cap)
	r.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, typ)
	var got abi.IbUverbsQpCap
	var num uint32
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &got)
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &num)
	var resp abi.EfaIbvCreateQpResp
	r.Driver(abi.Bytes(&in), abi.Bytes(&resp))
	if err := r.Do(b.k); err != nil {
		return nil, err
	}
	if got != cap {
		b.t.Errorf("asked for %+v, got %+v", cap, got)
	}
	q := &testQP{bench: b, handle: r.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE), num: num, entries: cap.MaxSendWr, sendCQ: send, recvCQ: recv,
		llqAt: int(resp.LlqDescOffset), sqAt: int(resp.SqDbOffset), rqAt: int(resp.RqDbOffset), wqe: wqeSize, descs: in.RqRingSize / descSize}
	if cap.MaxSendWr > 0 {
		q.wqe = int(in.SqRingSize / cap.MaxSendWr)
	}
	var err error
	q.llq, err = b.k.MapPage(int64(resp.LlqDescMmapKey), fakeverbs.RoundUp(q.llqAt+int(in.SqRingSize)))
	b.must(err)
	q.sq, err = b.k.MapPage(int64(resp.SqDbMmapKey), onePage)
	b.must(err)
	if in.RqRingSize > 0 {
		ring, err := b.k.Map(int64(resp.RqMmapKey), int(resp.RqMmapSize), mmap.ProtWrite)
		b.must(err)
		q.rq = ring.Bytes()
		q.rqDB, err = b.k.MapPage(int64(resp.RqDbMmapKey), onePage)
		b.must(err)
	}
	return q, nil
}

// srd returns an SRD queue pair in RTS, with a PD that reaches the device itself, and the number of the address.
func srd(t *testing.T, set func(*Options)) (q *testQP, lkey, rkey uint32, ah uint16) {
	t.Helper()
	b := opened(t, set)
	pd := b.pd()
	access := uint32(abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ)
	if OptionsOf(b.k).Kernel != Linux61 {
		access |= abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	}
	lkey, rkey, err := b.mr(pd, access)
	b.must(err)
	ah, _, err = b.ah(pd, fakeverbs.GID)
	b.must(err)
	cq, err := b.cq(8, abi.EfaIbvCreateCq{CqEntrySize: longCQE, NumSubCqs: OptionsOf(b.k).SubCQs + b2u(OptionsOf(b.k).SubCQs == 0)})
	b.must(err)
	q, err = b.qp(pd, abi.IB_UVERBS_QPT_DRIVER, abi.IbUverbsQpCap{MaxSendWr: 4, MaxRecvWr: 2, MaxSendSge: 2, MaxRecvSge: 2, MaxInlineData: 32},
		abi.EfaIbvCreateQp{SqRingSize: 4 * wqeSize, RqRingSize: 4 * descSize}, cq, cq)
	b.must(err)
	q.toRTS()
	return q, lkey, rkey, ah
}

func b2u(v bool) uint16 {
	if v {
		return 1
	}
	return 0
}

func (q *testQP) modify(in abi.IbUverbsModifyQp) error {
	in.QpHandle = q.handle
	return q.write(abi.IB_USER_VERBS_CMD_MODIFY_QP, &in, nil, nil, nil)
}

func (q *testQP) toRTS() {
	q.t.Helper()
	q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | first, QpState: abi.IB_QPS_INIT, PortNum: 1, Qkey: 5}))
	q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RTR}))
	q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | abi.IB_QP_SQ_PSN, QpState: abi.IB_QPS_RTS}))
}

// wqe is a send to the queue pair itself, of SGEs or of data inline.
func (q *testQP) entry(id, ah uint16, op uint8, sges ...fakeverbs.SGE) []byte {
	w := make([]byte, q.wqe)
	le.PutUint16(w, id)
	w[2], w[3] = op|isMeta, firstBit|lastBit|compReq|byte(q.sqPC/q.entries&1)
	le.PutUint16(w[4:], uint16(q.num))
	le.PutUint16(w[6:], uint16(len(sges)))
	le.PutUint16(w[12:], ah)
	le.PutUint32(w[16:], 5)
	at := 32
	if op&opMask != opSend {
		at = 48
		le.PutUint32(w[32:], sges[0].Length)
		le.PutUint64(w[40:], lentAt)
	}
	for _, s := range sges {
		le.PutUint32(w[at:], s.Length)
		le.PutUint32(w[at+4:], s.LKey)
		le.PutUint64(w[at+8:], s.Addr)
		at += 16
	}
	return w
}

// post copies sends, and rings.
func (q *testQP) post(entries ...[]byte) {
	q.llq.StartWC()
	for _, w := range entries {
		for i := 0; i < len(w); i += 64 {
			q.llq.Copy64(q.llqAt+int(q.sqPC%q.entries)*q.wqe+i, (*[64]byte)(w[i:]))
		}
		q.sqPC++
	}
	q.sq.StoreWC32(q.sqAt, q.sqPC&0xffff)
}

// receive posts a receive.
func (q *testQP) receive(id uint16, sges ...fakeverbs.SGE) {
	q.describe(id, sges...)
	q.rqDB.Store32(q.rqAt, q.rqPC&0xffff)
}

// describe writes the descriptors of a receive.
func (q *testQP) describe(id uint16, sges ...fakeverbs.SGE) {
	for i, s := range sges {
		d := q.rq[int(q.rqPC%q.descs)*descSize:][:descSize]
		le.PutUint64(d, s.Addr)
		le.PutUint16(d[10:], uint16(s.Length))
		ctrl := s.LKey
		le.PutUint16(d[8:], 0)
		if i == 0 {
			ctrl |= firstDesc
			le.PutUint16(d[8:], id)
		}
		if i == len(sges)-1 {
			ctrl |= lastDesc
		}
		le.PutUint32(d[12:], ctrl)
		q.rqPC++
	}
}

func (q *testQP) device() *fakeverbs.QP { return q.k.Device.QP(q.num) }

func (b *bench) clean() {
	b.t.Helper()
	for _, v := range b.k.Violations() {
		b.t.Error(v)
	}
}

// TestEFAFaces checks what the versions of the driver offer and refuse.
func TestEFAFaces(t *testing.T) {
	for name, c := range map[string]struct {
		kernel   Kernel
		inlineEx uint16
		caps     uint32
		qpFlags  uint16
		junk     error // for bytes behind the struct
		query    bool
	}{
		"7.3": {Linux73, 80, 0x37f, 3, syscall.EOPNOTSUPP, true},
		"7.2": {Linux72, 80, 0x7f, 1, syscall.EOPNOTSUPP, true},
		"6.1": {Linux61, 0, 0xf, 0, syscall.EINVAL, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Kernel = c.kernel })
			resp, err := b.context(3)
			b.must(err)
			if resp.InlineBufSizeEx != c.inlineEx || resp.SubCqsPerCq != 1 || resp.MaxLlqSize != maxLLQ || resp.CmdsSuppUdataMask != 3 {
				t.Errorf("%+v", resp)
			}
			var out abi.IbUverbsExQueryDeviceResp
			var more abi.EfaIbvExQueryDeviceResp
			b.must(b.write(ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE), &abi.IbUverbsExQueryDevice{}, abi.Bytes(&out), nil, abi.Bytes(&more)))
			if more.DeviceCaps != c.caps || out.Base.VendorId != 0x1d0f || out.Base.MaxSgeRd != 1 || more.MaxRqSge != maxRQSGE {
				t.Errorf("%+v, %+v", more, out.Base)
			}
			pd := b.pd()
			cq, err := b.cq(4, abi.EfaIbvCreateCq{CqEntrySize: shortCQE, NumSubCqs: 1})
			b.must(err)
			for flag := uint16(1); flag < 8; flag <<= 1 {
				_, err := b.qp(pd, abi.IB_UVERBS_QPT_DRIVER, abi.IbUverbsQpCap{MaxSendWr: 4, MaxSendSge: 1},
					abi.EfaIbvCreateQp{SqRingSize: 4 * wqeSize, Flags: flag}, cq, cq)
				want := c.junk
				if c.qpFlags&flag != 0 {
					want = nil
				}
				if !errors.Is(err, want) {
					t.Errorf("flag %#x: %v, want %v", flag, err, want)
				}
			}
			var private [8]byte
			private[7] = 1
			if err := b.write(abi.IB_USER_VERBS_CMD_ALLOC_PD, &abi.IbUverbsAllocPd{}, make([]byte, 4), private[:], nil); !errors.Is(err, c.junk) {
				t.Errorf("junk: %v, want %v", err, c.junk)
			}
			r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_MR, abi.EFA_IB_METHOD_MR_QUERY)
			r.Handle(abi.EFA_IB_ATTR_QUERY_MR_HANDLE, 99)
			var v [4]uint16
			for i := range v {
				ioctl.Out(r, abi.EFA_IB_ATTR_QUERY_MR_RESP_IC_ID_VALIDITY+uint16(i), &v[i])
			}
			want := error(syscall.ENOENT)
			if !c.query {
				want = syscall.EPROTONOSUPPORT
			}
			if err := r.Do(b.k); !errors.Is(err, want) {
				t.Errorf("query of a region: %v, want %v", err, want)
			}
		})
	}
}

// TestEFARefuses checks what the driver refuses.
func TestEFARefuses(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxTxBatch, o.MinSQWR = 4, 2 })
	for _, caps := range []uint32{0, 1, 2} {
		if _, err := b.context(caps); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("capabilities %#x: %v", caps, err)
		}
	}
	b = opened(t, func(o *Options) {
		o.NoCaps = abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE | abi.EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID
	})
	pd := b.pd()
	for access, want := range map[uint32]error{
		0: nil, abi.IB_UVERBS_ACCESS_LOCAL_WRITE: nil, abi.IB_UVERBS_ACCESS_REMOTE_READ: nil, abi.IB_UVERBS_ACCESS_RELAXED_ORDERING: nil,
		abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE:  syscall.EOPNOTSUPP,
		abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC: syscall.EOPNOTSUPP,
		abi.IB_UVERBS_ACCESS_MW_BIND:                                          syscall.EOPNOTSUPP,
		abi.IB_UVERBS_ACCESS_ON_DEMAND:                                        syscall.EOPNOTSUPP,
	} {
		lkey, rkey, err := b.mr(pd, access)
		if !errors.Is(err, want) || err == nil && (lkey == rkey || lkey > keyMask) {
			t.Errorf("access %#x: %#x, %#x, %v, want %v", access, lkey, rkey, err, want)
		}
	}
	for name, c := range map[string]struct {
		entries int
		in      abi.EfaIbvCreateCq
		want    error
	}{
		"too many":        {maxCQE + 1, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1}, syscall.EINVAL},
		"no power of two": {6, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1}, syscall.EINVAL},
		"size":            {4, abi.EfaIbvCreateCq{CqEntrySize: 64, NumSubCqs: 1}, syscall.EINVAL},
		"parts":           {4, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 2}, syscall.EINVAL},
		"mask":            {4, abi.EfaIbvCreateCq{CompMask: 1, CqEntrySize: 32, NumSubCqs: 1}, syscall.EOPNOTSUPP},
		"reserved":        {4, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1, Reserved58: [5]uint8{1}}, syscall.EINVAL},
		"flag":            {4, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1, Flags: 8}, syscall.EOPNOTSUPP},
		"SGID":            {4, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1, Flags: abi.EFA_CREATE_CQ_WITH_SGID}, syscall.EOPNOTSUPP},
	} {
		if _, err := b.cq(c.entries, c.in); !errors.Is(err, c.want) {
			t.Errorf("CQ, %s: %v, want %v", name, err, c.want)
		}
	}
	cq, err := b.cq(4, abi.EfaIbvCreateCq{CqEntrySize: 32, NumSubCqs: 1})
	b.must(err)
	ok := abi.IbUverbsQpCap{MaxSendWr: 4, MaxSendSge: 1}
	for name, c := range map[string]struct {
		typ  uint64
		cap  abi.IbUverbsQpCap
		in   abi.EfaIbvCreateQp
		want error
	}{
		"RC":       {abi.IB_UVERBS_QPT_RC, ok, abi.EfaIbvCreateQp{SqRingSize: 256}, syscall.EOPNOTSUPP},
		"not SRD":  {abi.IB_UVERBS_QPT_DRIVER, ok, abi.EfaIbvCreateQp{SqRingSize: 256, DriverQpType: 1}, syscall.EOPNOTSUPP},
		"SGEs":     {abi.IB_UVERBS_QPT_UD, abi.IbUverbsQpCap{MaxSendWr: 4, MaxSendSge: 3}, abi.EfaIbvCreateQp{SqRingSize: 256}, syscall.EINVAL},
		"inline":   {abi.IB_UVERBS_QPT_UD, abi.IbUverbsQpCap{MaxSendWr: 4, MaxInlineData: 81}, abi.EfaIbvCreateQp{SqRingSize: 512}, syscall.EINVAL},
		"LLQ":      {abi.IB_UVERBS_QPT_UD, abi.IbUverbsQpCap{MaxSendWr: 4096}, abi.EfaIbvCreateQp{SqRingSize: 4096 * 128}, syscall.EINVAL},
		"reserved": {abi.IB_UVERBS_QPT_UD, ok, abi.EfaIbvCreateQp{SqRingSize: 256, Reserved98: [5]uint8{2}}, syscall.EINVAL},
	} {
		if _, err := b.qp(pd, c.typ, c.cap, c.in, cq, cq); !errors.Is(err, c.want) {
			t.Errorf("QP, %s: %v, want %v", name, err, c.want)
		}
	}
	if all := strings.Join(b.k.Violations(), "\n"); all != "CQ_CREATE: 6 entries, which is no power of two" {
		t.Error(all)
	}
}

// TestEFAStates checks the transitions of an SRD queue pair, and what can be asked for.
func TestEFAStates(t *testing.T) {
	q, _, _, _ := srd(t, nil)
	for name, c := range map[string]struct {
		in   abi.IbUverbsModifyQp
		want error
	}{
		"RTS to INIT":   {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | first, QpState: abi.IB_QPS_INIT, PortNum: 1}, syscall.EINVAL},
		"address":       {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_AV, Dest: abi.IbUverbsQpDest{PortNum: 1}}, syscall.EOPNOTSUPP},
		"rights":        {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_ACCESS_FLAGS}, syscall.EOPNOTSUPP},
		"Q_Key":         {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_QKEY, Qkey: 5}, nil},
		"P_Key":         {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_PKEY_INDEX}, syscall.EINVAL},
		"RESET to ERR":  {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | abi.IB_QP_CUR_STATE, CurQpState: abi.IB_QPS_RESET, QpState: abi.IB_QPS_ERR}, syscall.EINVAL},
		"RNR in RTS":    {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_RNR_RETRY}, syscall.EINVAL},
		"RTS with more": {abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | abi.IB_QP_SQ_PSN, QpState: abi.IB_QPS_RTS}, syscall.EINVAL},
	} {
		if err := q.modify(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RESET}))
	bad := abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE | first, QpState: abi.IB_QPS_INIT, PortNum: 1, PkeyIndex: 1}
	if err := q.modify(bad); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("P_Key 1: %v", err)
	}
	for mask, want := range map[uint32]error{
		abi.IB_QP_STATE | abi.IB_QP_CAP | abi.IB_QP_QKEY: nil, abi.IB_QP_STATE | abi.IB_QP_AV: syscall.EOPNOTSUPP,
	} {
		in := abi.IbUverbsQueryQp{QpHandle: q.handle, AttrMask: mask}
		if err := q.write(abi.IB_USER_VERBS_CMD_QUERY_QP, &in, make([]byte, 128), nil, nil); !errors.Is(err, want) {
			t.Errorf("query of %#x: %v, want %v", mask, err, want)
		}
	}
	q.clean()
}

// TestEFAAddresses checks the table of addresses: the same GID in a PD has one number, and before Linux 7.3 the first
// end of an address handle takes the address from the others.
func TestEFAAddresses(t *testing.T) {
	for _, kernel := range []Kernel{Linux73, Linux72} {
		b := opened(t, func(o *Options) { o.Kernel = kernel })
		one, other := b.pd(), b.pd()
		n1, h1, err := b.ah(one, fakeverbs.GID)
		b.must(err)
		n2, h2, err := b.ah(one, fakeverbs.GID)
		b.must(err)
		n3, _, err := b.ah(other, fakeverbs.GID)
		b.must(err)
		if n1 != n2 || n1 == n3 {
			t.Errorf("numbers %d, %d and %d", n1, n2, n3)
		}
		if _, _, err := b.ah(one, [16]byte{}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("no GID: %v", err)
		}
		m := b.k.Model.(*model)
		cq, err := b.cq(4, abi.EfaIbvCreateCq{CqEntrySize: shortCQE, NumSubCqs: 1})
		b.must(err)
		q, err := b.qp(one, abi.IB_UVERBS_QPT_DRIVER, abi.IbUverbsQpCap{MaxSendWr: 4}, abi.EfaIbvCreateQp{SqRingSize: 4 * wqeSize}, cq, cq)
		b.must(err)
		q.toRTS()
		q.post(q.entry(7, n1, opSend))
		w, _ := q.device().TakeSend()
		b.destroyAH(h1)
		if QPOf(q.device()).Reaches(w) != (kernel == Linux73) {
			t.Errorf("kernel %d: a send reaches the twin's address: %t", kernel, kernel != Linux73)
		}
		if m.byNumber(one, n1) != nil != (kernel == Linux73) {
			t.Errorf("kernel %d: the twin's address: %v", kernel, m.byNumber(one, n1))
		}
		b.destroyAH(h2)
		if m.byNumber(one, n1) != nil || m.byNumber(other, n3) == nil {
			t.Error("the addresses are wrong")
		}
	}
}

// TestEFASend posts sends and receives, and completes them out of order.
func TestEFASend(t *testing.T) {
	q, lkey, _, ah := srd(t, nil)
	mem := fakeverbs.SGE{Addr: lentAt + 100, Length: 8, LKey: lkey}
	copy(q.mem[100:], "messages")
	q.receive(3, mem, mem)
	q.receive(2, mem)
	for lap := range uint16(5) {
		inline := q.entry(7+lap, ah, opSend|isInline|hasImm)
		le.PutUint16(inline[6:], 4)
		le.PutUint32(inline[8:], 0x01020304)
		copy(inline[32:], "tiny")
		q.post(q.entry(17+lap, ah, opSend, mem, mem), inline)
		one, _ := q.device().TakeSend()
		two, ok := q.device().TakeSend()
		if !ok || one.Len() != 16 || two.Opcode != abi.IB_UVERBS_WR_SEND_WITH_IMM || string(two.Inline) != "tiny" || two.Imm != 0x04030201 ||
			one.To.QPN != q.num || one.To.QKey != 5 || one.To.AH == nil {
			t.Fatalf("%+v, %+v", one, two)
		}
		q.device().Sent(two, abi.IB_WC_SUCCESS)
		q.device().Sent(one, abi.IB_WC_REM_OP_ERR)
		for _, want := range []struct {
			id     uint16
			status byte
		}{{7 + lap, 0}, {17 + lap, unknownPeer}} {
			e := q.sendCQ.poll()
			if e == nil || le.Uint16(e) != want.id || e[2] != want.status || e[3]>>1&3 != sendQueue || le.Uint16(e[4:]) != uint16(q.num) {
				t.Fatalf("%x, want %+v", e, want)
			}
		}
	}
	if s := q.device().State(); s != abi.IB_QPS_RTS {
		t.Errorf("the state is %d after an error of a request", s)
	}
	for _, want := range []struct {
		id   uint32
		sges int
	}{{3, 2}, {2, 1}} {
		r, ok := q.device().TakeRecv()
		if !ok || r.Index != want.id || len(r.SGL) != want.sges {
			t.Fatalf("%+v, want %+v", r, want)
		}
		r.From = fakeverbs.GID
		q.device().Received(r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: 0x12345, SrcQp: 9, Ex: 0x04030201, WcFlags: abi.IB_WC_WITH_IMM}, false)
		e := q.recvCQ.poll()
		if le.Uint16(e) != uint16(want.id) || e[3]>>1&7 != recvQueue|4 || le.Uint16(e[8:]) != ah || le.Uint16(e[10:]) != 9 || le.Uint32(e[12:]) != 0x01020304 {
			t.Errorf("%x", e)
		}
	}
	q.clean()
}

// TestEFALateDoorbells checks that a message finds a receive whose doorbell is passed on after it.
// Those that arrive later announce nothing more.
func TestEFALateDoorbells(t *testing.T) {
	q, lkey, _, _ := srd(t, func(o *Options) { o.Late = true })
	mem := fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey}
	var stored uint32
	q.k.Unseen = func(key int64, at int) (uint64, bool) {
		if at != q.rqAt {
			t.Errorf("the device looks at %#x of %#x", at, key)
		}
		return 1<<32 | uint64(stored), stored != 0
	}
	for id := range uint16(6) {
		before := q.rqPC
		q.describe(id, mem)
		if _, ok := q.device().PeekRecv(); ok {
			t.Fatal("there is a receive without a doorbell")
		}
		stored = q.rqPC
		if r, ok := q.device().PeekRecv(); !ok || r.Index != uint32(id) {
			t.Fatalf("%+v, want receive %d", r, id)
		}
		r, ok := q.device().TakeRecv()
		if !ok || r.Index != uint32(id) {
			t.Fatalf("%+v, want receive %d", r, id)
		}
		stored = 0
		q.rqDB.Store32(q.rqAt, before&0xffff)
		q.rqDB.Store32(q.rqAt, q.rqPC&0xffff)
		if r, ok := q.device().PeekRecv(); ok {
			t.Fatalf("%+v, posted once", r)
		}
		q.device().Received(r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV}, false)
		q.recvCQ.poll()
	}
	q.receive(9, mem)
	if r, ok := q.device().TakeRecv(); !ok || r.Index != 9 {
		t.Errorf("%+v, want receive 9", r)
	}
	q.clean()
	q.rqDB.Store32(q.rqAt, q.rqPC-1)
	if v := q.k.Violations(); len(v) != 1 {
		t.Errorf("a doorbell that goes back: %q", v)
	}
}

// TestEFAWide uses entries of 128 bytes, ids of 64 bits, a WRITE with data inline, and a WRITE that takes no receive.
func TestEFAWide(t *testing.T) {
	b := opened(t, nil)
	pd := b.pd()
	_, rkey, err := b.mr(pd, abi.IB_UVERBS_ACCESS_LOCAL_WRITE|abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
	b.must(err)
	ah, _, err := b.ah(pd, fakeverbs.GID)
	b.must(err)
	cq, err := b.cq(4, abi.EfaIbvCreateCq{CqEntrySize: longCQE, NumSubCqs: 1, Flags: abi.EFA_CREATE_CQ_WITH_SGID | abi.EFA_CREATE_CQ_WITH_SQ_COMP_64_BIT_REQ_ID})
	b.must(err)
	q, err := b.qp(pd, abi.IB_UVERBS_QPT_DRIVER, abi.IbUverbsQpCap{MaxSendWr: 4, MaxSendSge: 1, MaxInlineData: 80},
		abi.EfaIbvCreateQp{SqRingSize: 4 * wideWQE, Flags: 3}, cq, cq)
	b.must(err)
	q.toRTS()
	w := q.entry(1, ah, opWrite|isInline|hasImm, fakeverbs.SGE{Length: 80})
	clear(w[48:])
	copy(w[48:], strings.Repeat("x", 80))
	le.PutUint16(w[6:], 80)
	le.PutUint32(w[36:], rkey)
	le.PutUint16(w[26:], 2)
	le.PutUint32(w[28:], 0x40003)
	q.post(w)
	work, ok := q.device().TakeSend()
	if !ok || work.Opcode != abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM || len(work.Inline) != 80 || work.RKey != rkey || work.RemoteAddr != lentAt {
		t.Fatalf("%+v", work)
	}
	QPOf(q.device()).CompleteUnsolicited([16]byte{9}, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: 0x12345, WcFlags: abi.IB_WC_WITH_IMM})
	q.device().Sent(work, abi.IB_WC_SUCCESS)
	e := cq.poll()
	if e[3]>>7 != 1 || e[3]>>4&7 != opWrite || le.Uint16(e[6:]) != 0x2345 || le.Uint16(e[16:]) != 1 || le.Uint16(e[8:]) != unknown {
		t.Errorf("%x", e)
	}
	if e = cq.poll(); le.Uint16(e) != 1 || le.Uint16(e[6:]) != 2 || le.Uint32(e[8:]) != 0x40003 {
		t.Errorf("%x", e)
	}
	QPOf(q.device()).CompleteUnsolicited([16]byte{9}, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV})
	if e = cq.poll(); e[16] != 9 {
		t.Errorf("%x has no GID of the sender", e)
	}
	q.clean()
}

// TestEFAParts checks that each queue of a QP has a part of the CQ.
func TestEFAParts(t *testing.T) {
	q, lkey, _, ah := srd(t, func(o *Options) { o.SubCQs = 2; o.Kernel = Linux61 })
	mem := fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey}
	q.post(q.entry(7, ah, opSend, mem))
	w, _ := q.device().TakeSend()
	q.device().Sent(w, abi.IB_WC_SUCCESS)
	half := int(q.sendCQ.depth) * longCQE
	if part := QPOf(q.device()).sendPart; q.sendCQ.ring[part*half+3]&1 != 1 || q.sendCQ.ring[(1-part)*half+3] != 0 {
		t.Error("the completion is in another part")
	}
	q.clean()
}

// TestEFAErrors checks that the error state flushes, that RESET does not, and that the end of a queue pair leaves
// completions of a number that is used again with other bits above.
func TestEFAErrors(t *testing.T) {
	for _, atEnd := range []bool{false, true} {
		q, lkey, _, ah := srd(t, func(o *Options) { o.FlushAtDestroy = atEnd })
		mem := fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey}
		q.receive(1, mem)
		q.post(q.entry(7, ah, opSend, mem), q.entry(8, ah, opSend, mem))
		q.device().TakeSend()
		q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_ERR}))
		if e := q.sendCQ.poll(); (e == nil) != atEnd {
			t.Errorf("flush at the end alone: %t, and %x", atEnd, e)
		} else if !atEnd {
			if e2, e3 := q.sendCQ.poll(), q.sendCQ.poll(); e[2] != flushed || le.Uint16(e2) != 8 || e3[3]>>1&3 != recvQueue {
				t.Errorf("%x, %x, %x", e, e2, e3)
			}
		}
		r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY)
		r.Handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, q.handle)
		ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, new(uint32))
		q.must(r.Do(q.k))
		if e := q.sendCQ.poll(); (e != nil) != atEnd {
			t.Errorf("flush at the end alone: %t, and %x", atEnd, e)
		}
		again, err := q.qp(q.pd(), abi.IB_UVERBS_QPT_UD, abi.IbUverbsQpCap{MaxSendWr: 4, MaxSendSge: 1}, abi.EfaIbvCreateQp{SqRingSize: 256}, q.sendCQ, q.recvCQ)
		q.must(err)
		if again.num == q.num || again.num&(maxQP-1) != q.num&(maxQP-1) {
			t.Errorf("number %#x after %#x", again.num, q.num)
		}
		q.clean()
	}
	q, lkey, _, ah := srd(t, nil)
	mem := fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey}
	q.post(q.entry(7, ah, opSend, mem))
	q.must(q.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RESET}))
	if e := q.sendCQ.poll(); e != nil {
		t.Errorf("RESET flushed %x", e)
	}
	q.toRTS()
	q.sqPC = 0
	w := q.entry(7, ah, opSend, mem)
	w[3] ^= phase // as rdma-core may go on
	q.post(w)
	if !QPOf(q.device()).Fail(badDestQPN) || q.sendCQ.poll()[2] != badDestQPN {
		t.Error("no send after RESET")
	}
	q.clean()
}

// TestEFAEvents arms a CQ.
func TestEFAEvents(t *testing.T) {
	b := opened(t, nil)
	r := ioctl.Write(abi.RDMA_DRIVER_EFA, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &abi.IbUverbsCreateCompChannel{})
	var channel abi.IbUverbsCreateCompChannelResp
	r.OutBytes(abi.UVERBS_ATTR_CORE_OUT, abi.Bytes(&channel))
	b.must(r.Do(b.k))
	r = ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 4)
	r.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 9)
	r.FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, int32(channel.Fd))
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0)
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32))
	in := abi.EfaIbvCreateCq{CqEntrySize: shortCQE, NumSubCqs: 1, Flags: abi.EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL}
	var resp abi.EfaIbvCreateCqResp
	r.Driver(abi.Bytes(&in), abi.Bytes(&resp))
	b.must(r.Do(b.k))
	page, err := b.k.MapPage(int64(resp.DbMmapKey), onePage)
	b.must(err)
	cq := b.k.CQs()[0]
	const arm, event = 1 << 31, 1 << 29
	for i, step := range []struct {
		store    uint32
		complete int
		events   int
	}{
		{arm, 0, 0},
		{arm, 1, 1},             // the arm stands
		{1, 1, 1},               // it has been used
		{arm | 1, 0, 1},         // the event is not read, and stands for this one
		{arm | event | 1, 0, 2}, // there is one already
		{arm | 2*event | 2, 0, 2},
		{2, 1, 3}, // a doorbell of a poll does not disarm
	} {
		page.Store32(int(resp.DbOff), step.store)
		for range step.complete {
			CQOf(cq).Complete(CQE{Queue: sendQueue}, 0)
		}
		if got := cq.Events(); got != step.events {
			t.Fatalf("step %d: %d events, want %d", i, got, step.events)
		}
	}
	b.clean()
	page.Store32(int(resp.DbOff), arm|2)
	page.Store32(int(resp.DbOff), 3|1<<20)
	page.Store32(int(resp.DbOff), 9)
	all := strings.Join(b.k.Violations(), "\n")
	for _, want := range []string{"an arm counts 0 events (modulo 4), and there were 3", "reserved bits of the doorbell are set: 0x00100003", "says that 9 completions were read, after 3, and there are 3"} {
		if !strings.Contains(all, want) {
			t.Errorf("want %q in\n%s", want, all)
		}
	}
}

// TestEFANotes checks that the model records each misuse of queues and registers.
func TestEFANotes(t *testing.T) {
	type state struct {
		*testQP
		ah  uint16
		mem fakeverbs.SGE
	}
	changed := func(change func(s *state, w []byte)) func(*state) {
		return func(s *state) {
			w := s.entry(7, s.ah, opSend, s.mem)
			change(s, w)
			s.post(w)
		}
	}
	for want, misuse := range map[string]func(s *state){
		// registers
		"a store of 8 bytes to a doorbell, which takes 4": func(s *state) { s.sq.StoreWC64(s.sqAt, 1) },
		"the doorbell is at 0x808, not 0x8":               func(s *state) { s.rqDB.Store32(8, 0) },
		"the doorbell of sends has no barriers":           func(s *state) { s.sq.Store32(s.sqAt, 0) },
		"a copy to a doorbell":                            func(s *state) { s.sq.Copy64(0, new([64]byte)) },
		"a store of 4 bytes to the send queue":            func(s *state) { s.llq.Store32(0, 1) },
		"a store to registers that are gone": func(s *state) {
			r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY)
			r.Handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, s.handle)
			ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, new(uint32))
			s.must(r.Do(s.k))
			s.rqDB.Store32(s.rqAt, 1)
		},
		// the order of copies and doorbells
		"the next 64 bytes of sends go to 0x0, not 0x40": func(s *state) { s.llq.Copy64(0, new([64]byte)) },
		"a doorbell of 1 sends after copies of 0 bytes":  func(s *state) { s.sq.StoreWC32(s.sqAt, 1) },
		"a doorbell of 1 sends after copies of 128 bytes": func(s *state) {
			s.sqPC = 0
			s.llq.Copy64(64, new([64]byte))
			s.llq.Copy64(128, new([64]byte))
			s.sq.StoreWC32(s.sqAt, 1)
		},
		"sends are copied over others": func(s *state) {
			for i := range 5 {
				s.llq.Copy64(64+i%4*64, new([64]byte))
			}
		},
		"a doorbell of sends without a new one":                 func(s *state) { s.sq.StoreWC32(s.sqAt, 0) },
		"reserved bits of the doorbell of sends are set":        func(s *state) { s.sq.StoreWC32(s.sqAt, 1<<16) },
		"reserved bits of the doorbell of receives are set":     func(s *state) { s.rqDB.Store32(s.rqAt, 1<<16) },
		"5 sends are not completed, of a queue of 4":            func(s *state) { s.sq.StoreWC32(s.sqAt, 5) },
		"65535 sends are not completed":                         func(s *state) { s.sq.StoreWC32(s.sqAt, 0xffff) },
		"5 descriptors of receives are not completed, of a que": func(s *state) { s.rqDB.Store32(s.rqAt, 5) },
		"a doorbell of sends before it is ready to send": func(s *state) {
			s.must(s.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_ERR}))
			s.post(s.entry(7, s.ah, opSend, s.mem))
		},
		"a doorbell of receives in RESET": func(s *state) {
			s.must(s.modify(abi.IbUverbsModifyQp{AttrMask: abi.IB_QP_STATE, QpState: abi.IB_QPS_RESET}))
			s.receive(1, s.mem)
		},
		// sends
		"the phase is 1 in a lap of 0: it is not written": changed(func(_ *state, w []byte) { w[3] |= phase }),
		"the flags of its place are 0xc, not 0x1c":        changed(func(_ *state, w []byte) { w[3] &^= compReq }),
		"the flags of its place are 0x18, not 0x1c":       changed(func(_ *state, w []byte) { w[3] &^= firstBit }),
		"the flags of its place are 0x3c, not 0x1c":       changed(func(_ *state, w []byte) { w[3] |= 1 << 5 }),
		"reserved bits of the flags are set: 0xc0":        changed(func(_ *state, w []byte) { w[2] |= 1 << 6 }),
		"the bit of the first descriptor is missing: 0x0": changed(func(_ *state, w []byte) { w[2] &^= isMeta }),
		"the queue pair has no operation 3":               changed(func(_ *state, w []byte) { w[2] |= 3 }),
		"unknown hints: 0x2":                              changed(func(_ *state, w []byte) { w[14] = 2 }),
		"bytes 15 to 15 are not zero":                     changed(func(_ *state, w []byte) { w[15] = 2 }),
		"bytes 20 to 25 are not zero":                     changed(func(_ *state, w []byte) { w[25] = 2 }),
		"bytes 26 to 31 are not zero":                     changed(func(_ *state, w []byte) { w[26] = 2 }),
		"bytes 48 to 63 are not zero":                     changed(func(_ *state, w []byte) { w[63] = 2 }),
		"immediate data 0x5000000 without its flag":       changed(func(_ *state, w []byte) { w[11] = 5 }),
		"address 77, which the PD has not":                changed(func(_ *state, w []byte) { w[12] = 77 }),
		"3 SGEs, of 2":                                    changed(func(_ *state, w []byte) { w[6] = 3 }),
		"a key of more than 24 bits: 0x1":                 changed(func(_ *state, w []byte) { w[39] = 1 }),
		"33 bytes inline, of 32":                          changed(func(_ *state, w []byte) { w[2] |= isInline; w[6] = 33 }),
		"id 0x7 is that of another":                       func(s *state) { w := s.entry(7, s.ah, opSend, s.mem); s.post(w, w) },
		"8 bytes here, and 9 there": func(s *state) {
			w := s.entry(7, s.ah, opWrite, s.mem)
			w[32] = 9
			s.post(w)
		},
		"0 SGEs, of 1": func(s *state) {
			w := s.entry(7, s.ah, opRead, s.mem)
			w[6] = 0
			s.post(w)
		},
		"a WRITE has data inline, in an entry of 64 bytes": func(s *state) {
			w := s.entry(7, s.ah, opWrite, s.mem)
			w[2] |= isInline
			s.post(w)
		},
		// receives
		"descriptor 0 is empty":                       func(s *state) { s.receive(1, fakeverbs.SGE{}) },
		"descriptor 0: the bit of the first is false": func(s *state) { s.rqDB.Store32(s.rqAt, 1) },
		"descriptor 0: reserved bits are set":         func(s *state) { s.receive(1, fakeverbs.SGE{Length: 1, LKey: 1 << 24}) },
		"a doorbell of receives in the middle of one": func(s *state) { le.PutUint32(s.rq[12:], firstDesc|1); s.rqDB.Store32(s.rqAt, 1) },
		"descriptor 1: the bit of the first is true": func(s *state) {
			le.PutUint32(s.rq[12:], firstDesc|1)
			le.PutUint32(s.rq[28:], firstDesc|1)
			s.rqDB.Store32(s.rqAt, 2)
		},
		"receive id 0x1 is that of another": func(s *state) { s.receive(1, s.mem); s.receive(1, s.mem) },
		"descriptor 2: a receive has more than 2": func(s *state) {
			le.PutUint32(s.rq[12:], firstDesc|1)
			le.PutUint32(s.rq[28:], 1)
			s.rqDB.Store32(s.rqAt, 2)
		},
		// completions and addresses
		"somebody wrote to entry 0": func(s *state) {
			s.sendCQ.ring[5] = 1
			s.post(s.entry(7, s.ah, opSend, s.mem))
			QPOf(s.device()).Fail(1)
		},
		"a completion is lost: 8 are": func(s *state) {
			for range 9 {
				CQOf(s.k.CQs()[0]).Complete(CQE{Queue: sendQueue}, 0)
			}
		},
		"a CQ without a channel is armed": func(s *state) { s.sendCQ.page.Store32(s.sendCQ.dbAt, 1<<31) },
	} {
		q, lkey, _, ah := srd(t, nil)
		s := &state{q, ah, fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey}}
		if misuse(s); !strings.Contains(strings.Join(q.k.Violations(), "\n"), want) {
			t.Errorf("want %q, got %q", want, q.k.Violations())
		}
	}
	q, lkey, _, ah := srd(t, func(o *Options) { o.MaxTxBatch = 2 })
	w := q.entry(7, ah, opSend, fakeverbs.SGE{Addr: lentAt, Length: 8, LKey: lkey})
	other := slices.Clone(w)
	third := slices.Clone(w)
	other[0], third[0] = 8, 9
	q.post(w, other, third)
	if got := strings.Join(q.k.Violations(), "\n"); !strings.Contains(got, "192 bytes are copied without a doorbell, of 128") || !strings.Contains(got, "a doorbell of 3 sends, which takes 2 at a time") {
		t.Error(got)
	}
}

// TestEFAMaps refuses maps of other lengths, and of objects that are gone.
func TestEFAMaps(t *testing.T) {
	q, _, _, _ := srd(t, nil)
	m := q.k.Model.(*model)
	for key, n := range m.sizes {
		if _, err := q.k.Map(key, n+onePage, mmap.ProtRead); err != syscall.EINVAL {
			t.Errorf("%#x: %v", key, err)
		}
	}
	for key, p := range m.pages {
		if _, err := q.k.MapPage(key, p.length+onePage); err != syscall.EINVAL {
			t.Errorf("%#x: %v", key, err)
		}
		if _, err := q.k.Map(key, p.length, mmap.ProtRead); err != syscall.EINVAL {
			t.Errorf("%#x: %v", key, err)
		}
	}
	q.must(q.k.Close())
	if len(m.pages) > 0 || len(m.sizes) > 0 || len(m.keys.taken) > 0 || len(m.sends.taken) > 0 || len(m.memory.taken) > 0 {
		t.Errorf("left: %v, %v, %v, %v", m.pages, m.sizes, m.keys, m.memory)
	}
}

// TestEFACounters checks what the kernel refuses of completion counters.
func TestEFACounters(t *testing.T) {
	q, _, _, _ := srd(t, nil)
	create := func(words [2]abi.IbUverbsBufferDesc, tail ...byte) (uint32, error) {
		r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE)
		r.NewObject(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
		for i, w := range words {
			if w.Length > 0 {
				r.InBytes(abi.EFA_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER+uint16(i), append(slices.Clone(abi.Bytes(&w)), tail...))
			}
		}
		err := r.Do(q.k)
		return r.Created(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE), err
	}
	va := func(addr, length uint64) abi.IbUverbsBufferDesc {
		return abi.IbUverbsBufferDesc{Type: abi.IB_UVERBS_BUFFER_TYPE_VA, Addr: addr, Length: length}
	}
	good := va(lentAt+64, 8)
	flagged, buf, unknown := good, good, good
	flagged.Flags, buf.Type, unknown.Type = 1, abi.IB_UVERBS_BUFFER_TYPE_DMABUF, 2
	for name, c := range map[string]struct {
		word abi.IbUverbsBufferDesc
		tail byte
		want error
	}{
		"unaligned":       {va(lentAt+4, 8), 0, syscall.EINVAL},
		"short":           {va(lentAt, 7), 0, syscall.EINVAL},
		"nowhere":         {va(1<<40, 8), 0, syscall.EFAULT},
		"over the end":    {va(lentAt+uint64(len(q.mem))-8, 16), 0, syscall.EFAULT},
		"flags":           {flagged, 0, syscall.EINVAL},
		"dma-buf":         {buf, 0, syscall.EOPNOTSUPP},
		"another type":    {unknown, 0, syscall.EINVAL},
		"missing":         {va(0, 0), 0, syscall.EINVAL},
		"bytes behind it": {good, 1, syscall.EOPNOTSUPP},
	} {
		for i := range 2 {
			words := [2]abi.IbUverbsBufferDesc{good, good}
			words[i] = c.word
			if _, err := create(words, c.tail); !errors.Is(err, c.want) {
				t.Errorf("%s, word %d: %v, want %v", name, i, err, c.want)
			}
		}
	}
	counter, err := create([2]abi.IbUverbsBufferDesc{va(lentAt, 8), good}, 0, 0)
	q.must(err)
	call := func(method uint16, handle uint32, entry, op, value uint64) error {
		r := ioctl.New(abi.RDMA_DRIVER_EFA, abi.UVERBS_OBJECT_COMP_CNTR, method)
		r.Handle(0, handle)
		switch method {
		case abi.UVERBS_METHOD_COMP_CNTR_MODIFY:
			r.Const(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry)
			r.Const(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP, op)
			r.U64(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value)
		case abi.UVERBS_METHOD_COMP_CNTR_READ:
			r.Const(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry)
			ioctl.Out(r, abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &value)
		}
		return r.Do(q.k)
	}
	const modify = abi.UVERBS_METHOD_COMP_CNTR_MODIFY
	for name, c := range map[string]struct{ err, want error }{
		"read":            {call(abi.UVERBS_METHOD_COMP_CNTR_READ, counter, 0, 0, 0), syscall.EOPNOTSUPP},
		"read, no object": {call(abi.UVERBS_METHOD_COMP_CNTR_READ, q.handle, 0, 0, 0), syscall.ENOENT},
		"no object":       {call(modify, q.handle, 0, 0, 1), syscall.ENOENT},
		"destroy a QP":    {call(abi.UVERBS_METHOD_COMP_CNTR_DESTROY, q.handle, 0, 0, 0), syscall.ENOENT},
		"beyond":          {call(modify, counter, 1, 1, 1<<63), syscall.EINVAL},
		"add":             {call(modify, counter, 1, 1, 3), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	q.clean()
	q.must(call(modify, counter, 2, 2, 5)) // as entry 0 and INC, and a violation
	if v := q.k.Violations(); len(v) != 1 || le.Uint64(q.mem) != 5 || le.Uint64(q.mem[64:]) != 3 {
		t.Errorf("%q, %d, %d", v, le.Uint64(q.mem), le.Uint64(q.mem[64:]))
	}
}
