package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// groupGID is that of group4 on RoCE v2.
var groupGID = verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}

// leaveGroup leaves a group that it has joined for the purpose.
func leaveGroup(id *ID) error {
	m, err := id.JoinMulticast(group4, JoinFullMember)
	if err != nil {
		return err
	}
	return m.Close()
}

// joined has the fake report that the membership has begun.
func joined(k *fakeKernel, m *Multicast) {
	k.report(m.handle, EventMulticastJoin, func(ev *abi.RdmaUcmEventResp) {
		p := abi.RdmaUcmUdParam{QpNum: 1<<24 - 1, Qkey: 0x01234567}
		p.AhAttr.Grh.Dgid, p.AhAttr.IsGlobal = groupGID, 1
		copy(ev.Param[:], bytesOf(&p))
	})
}

func mustJoin(t *testing.T, id *ID, flags JoinFlags) *Multicast {
	t.Helper()
	m, err := id.JoinMulticast(group4, flags)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestJoinMulticast(t *testing.T) {
	k := newFake()
	id, qp := newDatagramID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{}); err != nil {
		t.Fatal(err)
	}
	m := mustJoin(t, id, JoinFullMember)
	b := body[abi.RdmaUcmJoinMcast](k, abi.RDMA_USER_CM_CMD_JOIN_MCAST)
	if b.Id != id.handle || b.AddrSize != 16 || b.JoinFlags != 0 || !slices.Equal(b.Addr[:8], []byte{2, 0, 0, 0, 239, 1, 2, 3}) || b.Uid == id.uid {
		t.Errorf("%+v", b)
	}
	joined(k, m)
	ev := mustGet(t, id.ch)
	if ev.ID != id || ev.Multicast != m || ev.Type != EventMulticastJoin || ev.Err != nil ||
		ev.UD.QPN != 0xffffff || ev.UD.QKey != 0x01234567 || ev.UD.AH.DGID != groupGID {
		t.Errorf("%+v, %+v", ev, ev.UD)
	}
	if !slices.Equal(qp.groups, []verbs.GID{groupGID}) {
		t.Error("attached to", qp.groups)
	}
	ev.Ack()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if b := body[abi.RdmaUcmDestroyId](k, abi.RDMA_USER_CM_CMD_LEAVE_MCAST); b.Id != m.handle {
		t.Error("left", b.Id)
	}
	if len(qp.groups) != 0 {
		t.Error("still attached")
	}
	if err := m.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("second leave:", err)
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
	if len(id.ch.multicasts) != 0 {
		t.Error("remembered after the end")
	}
}

func TestJoinSendOnly(t *testing.T) {
	k := newFake()
	id, qp := newDatagramID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{}); err != nil {
		t.Fatal(err)
	}
	m := mustJoin(t, id, JoinSendOnly)
	if b := body[abi.RdmaUcmJoinMcast](k, abi.RDMA_USER_CM_CMD_JOIN_MCAST); b.JoinFlags != 1 {
		t.Errorf("%+v", b)
	}
	joined(k, m)
	mustGet(t, id.ch).Ack()
	if len(qp.groups) != 0 {
		t.Error("attached to", qp.groups)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// The queue pair cannot take part: the event says so, as in librdmacm.
func TestJoinAttachFails(t *testing.T) {
	k := newFake()
	id, qp := newDatagramID(t, k), &fakeQP{groupFail: syscall.ENOMEM}
	if err := id.attach(qp, readLimits{}); err != nil {
		t.Fatal(err)
	}
	m := mustJoin(t, id, JoinFullMember)
	joined(k, m)
	ev := mustGet(t, id.ch)
	if ev.Type != EventMulticastError || !errors.Is(ev.Err, syscall.ENOMEM) || ev.Multicast != m {
		t.Errorf("%+v", ev)
	}
	ev.Ack()
	if err := m.Close(); err != nil { // not attached, so nothing to detach
		t.Error(err)
	}
}

// A membership whose queue pair does not let go stays, and may be left again.
func TestLeaveDetachFails(t *testing.T) {
	k := newFake()
	id, qp := newDatagramID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{}); err != nil {
		t.Fatal(err)
	}
	m := mustJoin(t, id, JoinFullMember)
	joined(k, m)
	mustGet(t, id.ch).Ack()
	qp.groupFail = syscall.EBUSY
	if err := m.Close(); !errors.Is(err, syscall.EBUSY) || k.count(abi.RDMA_USER_CM_CMD_LEAVE_MCAST) != 0 {
		t.Error(err)
	}
	qp.groupFail = nil
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeaveWaitsForAck(t *testing.T) { synctest.Test(t, testLeaveWaitsForAck) }

func testLeaveWaitsForAck(t *testing.T) {
	k := newFake()
	id := newDatagramID(t, k)
	m := mustJoin(t, id, JoinFullMember)
	joined(k, m)
	ev := mustGet(t, id.ch)
	left := make(chan error)
	go func() { left <- m.Close() }()
	waiting(t, left)
	ev.Ack()
	if err := <-left; err != nil {
		t.Error(err)
	}
	if err := id.Close(); err != nil { // whose count the event is in, too
		t.Error(err)
	}
}

func TestLeaveErrno(t *testing.T) {
	for errno := syscall.Errno(1); errno < 134; errno++ {
		k := newFake()
		id := newDatagramID(t, k)
		m := mustJoin(t, id, JoinFullMember)
		k.fail(abi.RDMA_USER_CM_CMD_LEAVE_MCAST, errno)
		err := m.Close()
		if !errors.Is(err, errno) || !strings.HasPrefix(err.Error(), "leave multicast group 239.1.2.3: ") {
			t.Errorf("%v answered as %v", errno, err)
		}
		k.fail(abi.RDMA_USER_CM_CMD_LEAVE_MCAST, 0)
		if err := m.Close(); err != nil {
			t.Errorf("after %v: %v", errno, err)
		}
	}
}

func TestJoinErrors(t *testing.T) {
	k := newFake()
	id := newDatagramID(t, k)
	k.fail(abi.RDMA_USER_CM_CMD_JOIN_MCAST, notSupported)
	_, err := id.JoinMulticast(netip.MustParseAddr("ff0e::1"), JoinFullMember)
	want := "join multicast group ff0e::1: operation not supported: the kernel has no IPv6 multicast over RoCE v2"
	if !errors.Is(err, verbs.ErrNotSupported) || err.Error() != want {
		t.Error(err)
	}
	for _, group := range []netip.Addr{{}, addr4.Addr(), addr6.Addr()} {
		if _, err := id.JoinMulticast(group, JoinFullMember); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", group, err)
		}
	}
	if len(id.ch.multicasts) != 0 || len(id.groups) != 0 {
		t.Error("remembered though refused")
	}
}

// Events follow a membership whose ID migrates.
func TestMigrateMembership(t *testing.T) {
	k := newFake()
	id := newDatagramID(t, k)
	m := mustJoin(t, id, JoinFullMember)
	from, to := id.ch, newEventChannel(k)
	if err := id.Migrate(to); err != nil {
		t.Fatal(err)
	}
	if len(from.multicasts) != 0 || len(to.multicasts) != 1 {
		t.Error("not moved")
	}
	joined(k, m)
	if ev := mustGet(t, to); ev.Multicast != m {
		t.Errorf("%+v", ev)
	} else {
		ev.Ack()
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("leave after destroy:", err)
	}
	if k.count(abi.RDMA_USER_CM_CMD_LEAVE_MCAST) != 0 {
		t.Error("the kernel was asked for a membership that is gone")
	}
}
