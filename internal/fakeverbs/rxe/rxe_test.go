package rxe

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/siw" // which lacks more
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// open returns a kernel with a context and PD 0.
func open(t *testing.T, driver uint32) *fakeverbs.Kernel {
	t.Helper()
	k := fakeverbs.New(driver)
	r := ioctl.New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	r.Driver(nil, make([]byte, 8))
	do(t, k, r, nil)
	do(t, k, write(k, abi.IB_USER_VERBS_CMD_ALLOC_PD, &abi.IbUverbsAllocPd{}, 4), nil)
	t.Cleanup(func() {
		if err := k.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return k
}

func do(t *testing.T, k *fakeverbs.Kernel, r *ioctl.Request, want error) {
	t.Helper()
	if err := r.Do(k); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// write returns a command with room for an answer of n bytes.
func write[T any](k *fakeverbs.Kernel, id uint32, in *T, n int) *ioctl.Request {
	r := ioctl.Write(k.Driver(), id, in)
	if n > 0 {
		r.OutBytes(abi.UVERBS_ATTR_CORE_OUT, make([]byte, n))
	}
	return r
}

func createCQ(k *fakeverbs.Kernel, entries uint32, resp *abi.RxeCreateCqResp) *ioctl.Request {
	r := ioctl.New(k.Driver(), abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	r.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, entries)
	r.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1)
	r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0)
	ioctl.Out(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32))
	if resp != nil {
		r.Driver(nil, abi.Bytes(resp))
	}
	return r
}

// TestRXEOffers checks that a queue can be mapped only once, and not beyond its end.
func TestRXEOffers(t *testing.T) {
	k := open(t, abi.RDMA_DRIVER_RXE)
	do(t, k, createCQ(k, 10, nil), syscall.EINVAL)
	do(t, k, createCQ(k, maxCQE+1, new(abi.RxeCreateCqResp)), syscall.EINVAL)
	var one, two abi.RxeCreateCqResp
	do(t, k, createCQ(k, 10, &one), nil)
	do(t, k, createCQ(k, 10, &two), nil)
	if one.Mi.Offset == two.Mi.Offset || one.Mi.Size != uint32(fakeverbs.RoundUp(data+16*128)) {
		t.Errorf("%+v, %+v", one.Mi, two.Mi)
	}
	if k.CQs()[0].Entries != 15 {
		t.Error(k.CQs()[0].Entries)
	}
	for _, c := range []struct {
		offset uint64
		length int
		want   error
	}{
		{one.Mi.Offset, int(one.Mi.Size) + 1, syscall.EINVAL}, {one.Mi.Offset + 1, 1, syscall.EINVAL},
		{one.Mi.Offset, int(one.Mi.Size), nil}, {one.Mi.Offset, int(one.Mi.Size), syscall.EINVAL}, {two.Mi.Offset, 1, nil},
	} {
		r, err := k.Map(int64(c.offset), c.length, mmap.ProtRead)
		if !errors.Is(err, c.want) {
			t.Errorf("%d bytes at %#x: %v, want %v", c.length, c.offset, err, c.want)
		}
		if err == nil {
			if n := binary.NativeEndian.Uint32(r.Bytes()); n != 7 {
				t.Errorf("entries of 2^%d bytes", n)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRXEResize moves unread completions that wrap around the ring.
func TestRXEResize(t *testing.T) {
	k := open(t, abi.RDMA_DRIVER_RXE)
	do(t, k, createCQ(k, 3, new(abi.RxeCreateCqResp)), nil)
	cq := k.CQs()[0]
	for i := range uint64(5) {
		if !CQOf(cq).Complete(abi.IbUverbsWc{WrId: i}) {
			t.Fatal("no room")
		}
		if i < 2 {
			CQOf(cq).ring.consumer.Store(uint32(i + 1)) // user space has read it
		}
	}
	if CQOf(cq).Complete(abi.IbUverbsWc{}) {
		t.Error("a full ring took another")
	}
	old := CQOf(cq).ring
	resize := func(n uint32, room int) *ioctl.Request {
		r := write(k, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.IbUverbsResizeCq{CqHandle: 1, Cqe: n}, 8)
		r.Driver(nil, make([]byte, room))
		return r
	}
	do(t, k, resize(2, 16), syscall.EINVAL)
	do(t, k, resize(8, 15), syscall.EINVAL)
	do(t, k, resize(8, 16), nil)
	ring := CQOf(cq).ring
	if ring == old || cq.Entries != 15 || ring.consumer.Load() != 0 || ring.producer.Load() != 3 || old.consumer.Load() != old.producer.Load() {
		t.Errorf("%d entries, %d to %d", cq.Entries, ring.consumer.Load(), ring.producer.Load())
	}
	for i := range uint32(3) {
		if id := binary.NativeEndian.Uint64(ring.at(i)); id != uint64(i+2) {
			t.Errorf("entry %d is %d", i, id)
		}
	}
	if !CQOf(cq).Complete(abi.IbUverbsWc{WrId: 5}) || binary.NativeEndian.Uint64(ring.at(3)) != 5 {
		t.Error("the next one is not behind them")
	}
}

// TestLacking uses features that drivers lack.
func TestLacking(t *testing.T) {
	siw, rxe := open(t, abi.RDMA_DRIVER_SIW), open(t, abi.RDMA_DRIVER_RXE)
	for name, request := range map[string]func(k *fakeverbs.Kernel) *ioctl.Request{
		"CREATE_AH": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_CREATE_AH, globalAH(1, fakeverbs.IPv4GID), 4)
		},
		"ALLOC_MW": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_ALLOC_MW, &abi.IbUverbsAllocMw{MwType: 1}, 8)
		},
		"RESIZE_CQ": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.IbUverbsResizeCq{CqHandle: 9}, 8)
		},
		"REQ_NOTIFY_CQ": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &abi.IbUverbsReqNotifyCq{CqHandle: 9}, 0)
		},
		"ATTACH_MCAST": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_ATTACH_MCAST, &abi.IbUverbsAttachMcast{QpHandle: 9}, 0)
		},
		"DETACH_MCAST": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_DETACH_MCAST, &abi.IbUverbsDetachMcast{QpHandle: 9}, 0)
		},
		"REREG_MR": func(k *fakeverbs.Kernel) *ioctl.Request {
			return write(k, abi.IB_USER_VERBS_CMD_REREG_MR, &abi.IbUverbsReregMr{MrHandle: 9, Flags: 4}, 8)
		},
	} {
		do(t, siw, request(siw), syscall.EOPNOTSUPP)
		if err := request(rxe).Do(rxe); errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("rxe has no %s", name)
		}
	}
	for _, m := range [][3]uint16{{abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY, 0}, {abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY, 0}} {
		for k, want := range map[*fakeverbs.Kernel]error{siw: syscall.EPROTONOSUPPORT, rxe: syscall.ENOENT} {
			r := ioctl.New(k.Driver(), m[0], m[1])
			r.Handle(m[2], 99)
			do(t, k, r, want)
		}
	}
}

func globalAH(slot uint8, to [16]byte) *abi.IbUverbsCreateAh {
	return &abi.IbUverbsCreateAh{Attr: abi.IbUverbsAhAttr{IsGlobal: 1, PortNum: 1, Grh: abi.IbUverbsGlobalRoute{SgidIndex: slot, Dgid: to}}}
}

// TestAH checks RoCE's requirements for addresses.
func TestAH(t *testing.T) {
	k := open(t, abi.RDMA_DRIVER_RXE)
	v6, v4, group := fakeverbs.LinkLocalGID, fakeverbs.IPv4GID, [16]byte{10: 0xff, 11: 0xff, 12: 239, 15: 1}
	local, port := globalAH(1, v4), globalAH(1, v4)
	local.Attr.IsGlobal, port.Attr.PortNum = 0, 2
	for _, c := range []struct {
		in   *abi.IbUverbsCreateAh
		want error
	}{{local, syscall.EINVAL}, {port, syscall.EINVAL}, {globalAH(2, v4), syscall.ENODATA},
		{globalAH(0, v4), syscall.EINVAL}, {globalAH(1, v6), syscall.EINVAL}, {globalAH(1, [16]byte{}), syscall.EINVAL}, {globalAH(0, [16]byte{}), syscall.ENETUNREACH},
		{globalAH(0, v6), nil}, {globalAH(1, v4), nil}, {globalAH(0, group), nil}} {
		r := write(k, abi.IB_USER_VERBS_CMD_CREATE_AH, c.in, 4)
		var resp abi.RxeCreateAhResp
		r.Driver(nil, abi.Bytes(&resp))
		do(t, k, r, c.want)
		if (resp.AhNum != 0) != (c.want == nil) {
			t.Errorf("number %d of %+v", resp.AhNum, c.in.Attr)
		}
	}
	pd := ioctl.New(k.Driver(), abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY)
	pd.Handle(abi.UVERBS_ATTR_DESTROY_PD_HANDLE, 0)
	do(t, k, pd, syscall.EBUSY)
}
