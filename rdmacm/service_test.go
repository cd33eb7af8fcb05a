package rdmacm

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// serviceBytes is a record with each field at the place that the specification gives it.
func serviceBytes() []byte {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}             // ID
	b = append(b, bytes.Repeat([]byte{9}, 16)...)   // GID
	b = append(b, 0x80, 0x01, 0, 0, 0, 0, 0x0e, 16) // P_Key, lease
	b = append(b, bytes.Repeat([]byte{7}, 16)...)   // key
	b = append(b, append([]byte("storage"), make([]byte, 57)...)...)
	for i := range byte(64) {
		b = append(b, i)
	}
	return b
}

func TestQueryServices(t *testing.T) {
	want := Service{ID: 0x0102030405060708, Name: "storage", GID: verbs.GID(bytes.Repeat([]byte{9}, 16)), PKey: 0x8001,
		Lease: 3600 * time.Second, Key: [16]byte(bytes.Repeat([]byte{7}, 16))}
	for i := range want.Data {
		want.Data[i] = byte(i)
	}
	k := newFake()
	id := newTestID(t, k)
	for says, has := range map[byte]int{0: 0, 1: 1, 6: 6, 200: 6} {
		k.services = append([]byte{says, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat(serviceBytes(), has)...)
		got, err := id.QueryServices()
		if err != nil || len(got) != has {
			t.Fatalf("%d of %d services, %v", len(got), says, err)
		}
		for _, s := range got {
			if diff := cmp.Diff(want, s); diff != "" {
				t.Error(diff)
			}
		}
	}
	k.fail(abi.RDMA_USER_CM_CMD_QUERY, syscall.EINVAL)
	if _, err := id.QueryServices(); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "Linux 6.12 does not have this yet") {
		t.Error(err)
	}
}

func TestResolveService(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	if err := id.ResolveService("", 77); err != nil {
		t.Fatal(err)
	}
	if got := body[abi.RdmaUcmResolveIbService](k, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE); got.Id != id.handle || got.Ibs.Flags != 1 || got.Ibs.ServiceId != 77 || got.Ibs.ServiceName[0] != 0 {
		t.Errorf("%+v", got)
	}
	long := strings.Repeat("n", 63)
	if err := id.ResolveService(long, 77); err != nil {
		t.Fatal(err)
	}
	if got := body[abi.RdmaUcmResolveIbService](k, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE); got.Ibs.Flags != 2 || got.Ibs.ServiceId != 0 || string(got.Ibs.ServiceName[:]) != long+"\x00" {
		t.Errorf("%+v", got)
	}
	if err := id.ResolveService(long+"n", 0); !errors.Is(err, syscall.EINVAL) || k.count(abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE) != 2 {
		t.Error(err)
	}
	k.report(id.handle, EventAddrInfoError, func(ev *abi.RdmaUcmEventResp) { ev.Status = minus(syscall.ETIMEDOUT) })
	if ev := mustGet(t, id.ch); ev.Type != EventAddrInfoError || ev.Err != syscall.ETIMEDOUT || ev.Type.String() != "ADDRINFO_ERROR" {
		t.Errorf("%+v", ev)
	}
}

// minus is an errno as the kernel reports it.
func minus(errno syscall.Errno) uint32 { return uint32(-int32(errno)) }

func TestWriteEvent(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	if err := id.WriteEvent(syscall.ECANCELED, 0x0102030405060708); err != nil {
		t.Fatal(err)
	}
	got := body[abi.RdmaUcmWriteCmEvent](k, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT)
	if got.Id != id.handle || EventType(got.Event) != EventUser || int32(got.Status) != -int32(syscall.ECANCELED) {
		t.Errorf("%+v", got)
	}
	k.report(id.handle, EventUser, func(ev *abi.RdmaUcmEventResp) {
		ev.Status = got.Status
		copy(ev.Param[:], got.Param[:8])
		for i := range ev.Param[8:] {
			ev.Param[8+i] = 0xff // which means nothing
		}
	})
	ev := mustGet(t, id.ch)
	if ev.Arg != 0x0102030405060708 || ev.Err != syscall.ECANCELED || ev.ID != id || ev.Param.PrivateData != nil {
		t.Errorf("%+v", ev)
	}
	k.fail(abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, syscall.EINVAL)
	if err := id.WriteEvent(0, 0); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "Linux 6.12 does not have this yet") {
		t.Error(err)
	}
}

func TestIBAddr(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	gid := verbs.GID{0xfe, 0x80, 15: 9}
	a := &IBAddr{PKey: 0x8001, FlowInfo: 0x01020304, GID: gid, ServiceID: IBServiceID(verbs.PortSpaceTCP, 7471), ServiceMask: 1<<64 - 1}
	want := []byte{27, 0, 0x80, 0x01, 1, 2, 3, 4}
	want = append(want, gid[:]...)
	want = append(want, 0, 0, 0, 0, 1, 6, 0x1d, 0x2f, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0)
	if err := id.BindIB(a); err != nil {
		t.Fatal(err)
	}
	if got := body[abi.RdmaUcmBind](k, abi.RDMA_USER_CM_CMD_BIND); got.AddrSize != 48 || !bytes.Equal(got.Addr[:48], want) {
		t.Errorf("% x", got.Addr[:48])
	}
	for _, src := range []*IBAddr{nil, a} {
		if err := id.ResolveIB(src, a, time.Second); err != nil {
			t.Fatal(err)
		}
		got := body[abi.RdmaUcmResolveAddr](k, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR)
		if got.TimeoutMs != 1000 || got.DstSize != 48 || !bytes.Equal(got.DstAddr[:48], want) || (got.SrcSize == 48) != (src != nil) || src != nil && got.SrcAddr != got.DstAddr {
			t.Errorf("%+v", got)
		}
	}
	k.fail(abi.RDMA_USER_CM_CMD_BIND, syscall.ENODEV)
	if err := id.BindIB(a); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "RoCE and iWARP take IP addresses") {
		t.Error(err)
	}
}
