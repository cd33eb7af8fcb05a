package rdmacm

import (
	"context"
	"errors"
	"math"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func TestConnectRequest(t *testing.T) {
	k := newFake()
	listener := newTestID(t, k)
	ch := listener.ch
	k.report(listener.handle, EventConnectRequest, func(ev *abi.RdmaUcmEventResp) {
		ev.Id = 77
		p := abi.RdmaUcmConnParam{PrivateDataLen: 3, ResponderResources: 5, InitiatorDepth: 6, QpNum: 9}
		copy(p.PrivateData[:], "abcdef")
		copy(ev.Param[:], bytesOf(&p))
		ev.Ece = abi.RdmaUcmEce{VendorId: 7, AttrMod: 8}
	})
	ev := mustGet(t, ch)
	if ev.Type != EventConnectRequest || ev.Listener != listener || ev.ID == listener || ev.ID.handle != 77 {
		t.Fatalf("%+v", ev)
	}
	want := ConnParam{PrivateData: []byte("abc"), ResponderResources: 5, InitiatorDepth: 6, QPN: 9, ECE: verbs.ECE{VendorID: 7, Options: 8}}
	if diff := cmp.Diff(want, ev.Param); diff != "" {
		t.Error(diff)
	}
	ev.Ack()
	ev.Ack()
	if listener.acked != 1 {
		t.Error("two calls of Ack counted", listener.acked)
	}
	// Events with the uid passed to accept belong to the new ID.
	if err := ev.ID.Accept(nil); err != nil {
		t.Fatal(err)
	}
	k.report(77, EventEstablished, nil)
	if got := mustGet(t, ch); got.ID != ev.ID {
		t.Error("event of another ID")
	} else {
		got.Ack()
	}
	for _, id := range []*ID{ev.ID, listener} {
		if err := id.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}

func TestDestroyWaitsForAck(t *testing.T) { synctest.Test(t, testDestroyWaitsForAck) }

func testDestroyWaitsForAck(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	k.report(id.handle, EventAddrResolved, nil)
	ev := mustGet(t, id.ch)
	destroyed := make(chan error)
	go func() { destroyed <- id.Close() }()
	waiting(t, destroyed)
	ev.Ack()
	if err := <-destroyed; err != nil {
		t.Error(err)
	}
	if err := id.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("second destroy:", err)
	}
}

func TestMigrateWaitsForAck(t *testing.T) { synctest.Test(t, testMigrateWaitsForAck) }

func testMigrateWaitsForAck(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	from, to := id.ch, newEventChannel(k)
	k.report(id.handle, EventAddrResolved, nil)
	ev := mustGet(t, from)
	migrated := make(chan error)
	go func() { migrated <- id.Migrate(to) }()
	waiting(t, migrated)
	ev.Ack()
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if len(from.ids) != 0 || len(to.ids) != 1 || body[abi.RdmaUcmMigrateId](k, abi.RDMA_USER_CM_CMD_MIGRATE_ID).Fd != 7 {
		t.Error("not moved")
	}
	k.report(id.handle, EventRouteResolved, nil)
	if ev := mustGet(t, to); ev.ID != id {
		t.Error("event lost")
	}
	if _, err := id.JoinMulticast(group4, JoinFullMember); err != nil { // also holds off Migrate
		t.Error(err)
	}
}

// After a move commands go to the new channel.
func TestMigrateFollows(t *testing.T) {
	from, to := newFake(), newFake()
	id := newTestID(t, from)
	if err := id.Migrate(newEventChannel(to)); err != nil {
		t.Fatal(err)
	}
	before := len(from.calls)
	if err := id.SetTOS(8); err != nil {
		t.Fatal(err)
	}
	if len(from.calls) != before || to.calls[len(to.calls)-1] != abi.RDMA_USER_CM_CMD_SET_OPTION {
		t.Errorf("the old channel got %d, the new one %d", from.calls, to.calls)
	}
}

// A target that the ID did not come to may be closed.
func TestMigrateFails(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	m := id.ch
	to := newEventChannel(newFake())
	to.file.(*fakeKernel).fail(abi.RDMA_USER_CM_CMD_MIGRATE_ID, syscall.EINVAL)
	if err := id.Migrate(to); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := to.Close(); err != nil {
		t.Error("the target keeps the ID:", err)
	}
	k.report(id.handle, EventAddrResolved, nil)
	if ev := mustGet(t, m); ev.ID != id {
		t.Error("the event of another ID")
	} else {
		ev.Ack()
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnknownUIDIsDropped(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	k.events <- abi.RdmaUcmEventResp{Uid: 1 << 60, Id: 5, Event: uint32(EventEstablished)}
	k.events <- abi.RdmaUcmEventResp{Uid: 0, Id: 5, Event: uint32(EventDisconnected)}
	k.events <- abi.RdmaUcmEventResp{Uid: 1 << 60, Id: 99, Event: uint32(EventConnectRequest)}
	k.report(id.handle, EventAddrResolved, nil)
	if ev := mustGet(t, id.ch); ev.ID != id || ev.Type != EventAddrResolved {
		t.Errorf("%+v", ev)
	}
	if b := body[abi.RdmaUcmDestroyId](k, abi.RDMA_USER_CM_CMD_DESTROY_ID); b.Id != 99 {
		t.Error("the connect request nobody can own was not destroyed, but", b.Id)
	}
}

func TestEventStatus(t *testing.T) {
	tests := []struct {
		typ    EventType
		status int32
		want   error
	}{
		{EventAddrResolved, 0, nil},
		{EventAddrError, -int32(syscall.ETIMEDOUT), syscall.ETIMEDOUT},
		{EventRouteError, int32(syscall.EINVAL), syscall.EINVAL},
		{EventUnreachable, -int32(syscall.ETIMEDOUT), syscall.ETIMEDOUT},
		{EventRejected, 28, syscall.ECONNREFUSED},
		{EventRejected, -int32(syscall.ECONNRESET), syscall.ECONNREFUSED},
		{EventRejected, -int32(syscall.ECONNRESET), syscall.ECONNRESET},
		{EventConnectError, math.MinInt32, syscall.Errno(1 << 31)},
		{EventUnreachable, 1, syscall.ECONNREFUSED}, // the answers to a lookup
		{EventUnreachable, math.MaxInt32, syscall.ECONNREFUSED},
		{EventMulticastError, -int32(syscall.ENETDOWN), syscall.ENETDOWN},
	}
	for _, test := range tests {
		k := newFake()
		id := newTestID(t, k)
		k.report(id.handle, test.typ, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(test.status) })
		if ev := mustGet(t, id.ch); !errors.Is(ev.Err, test.want) {
			t.Errorf("%v %d: %v, want %v", test.typ, test.status, ev.Err, test.want)
		}
	}
}

func TestRejectionText(t *testing.T) {
	const orKernel = ", or by its kernel (the program ended, closed its end, failed to accept, or listens on other addresses)"
	for _, test := range []struct {
		err  RejectedError
		want string
	}{
		{RejectedError{Reason: lookupReason(1)}, "no listener on that port"},
		{RejectedError{Reason: lookupReason(2), PrivateData: []byte("no\x00")}, "rejected by the peer program"},
		{RejectedError{Reason: lookupReason(3)}, "no QP"},
		{RejectedError{Reason: lookupReason(5)}, "RejectReason(261)"},
		{RejectedError{Reason: RejectInvalidServiceID}, "no listener on that port"},
		{RejectedError{Reason: RejectConsumer}, "rejected by the peer program" + orKernel},
		{RejectedError{Reason: RejectConsumer, PrivateData: make([]byte, 148)}, "rejected by the peer program" + orKernel},
		{RejectedError{Reason: RejectConsumer, PrivateData: append(make([]byte, 147), 1)}, "rejected by the peer program"},
		{RejectedError{Reason: 3}, "no resources"},
		{RejectedError{Reason: 12, PrivateData: []byte{1}}, "primary remote port GID rejected"},
		{RejectedError{Reason: 26}, "invalid path MTU"},
		{RejectedError{Reason: 30}, "duplicate local communication ID"},
		{RejectedError{Reason: 34}, "RejectReason(34)"},
		{RejectedError{Reason: 35}, "vendor options not supported"},
		{RejectedError{Reason: 99}, "RejectReason(99)"},
		{RejectedError{Errno: syscall.ECONNRESET}, "connection reset by peer"},
	} {
		if got := test.err.Error(); got != "connection rejected: "+test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if got := EventType(27).String(); got != "Event(27)" {
		t.Error(got)
	}
	if got := EventTimewaitExit.String(); got != "TIMEWAIT_EXIT" {
		t.Error(got)
	}
}

// The active side on InfiniBand and RoCE.
func TestConnectResponse(t *testing.T) {
	k := newFake()
	id, qp := newTestID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	k.access = verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	k.report(id.handle, EventConnectResponse, nil)
	ev := mustGet(t, id.ch)
	if ev.Type != EventEstablished || ev.Err != nil {
		t.Fatalf("%+v", ev)
	}
	want := []verbs.QPState{verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS}
	if diff := cmp.Diff(want, qp.states); diff != "" {
		t.Error(diff)
	}
	if qp.attrs[1].MaxDestRDAtomic != 9 {
		t.Error("the kernel's number was replaced")
	}
	if a := qp.attrs[1].Access; qp.masks[1]&verbs.QPAttrAccess == 0 || a != verbs.AccessRemoteWrite|verbs.AccessRemoteRead {
		t.Errorf("the peer's answer granted the access %v", a)
	}
	if a := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT); a.ConnParam.Valid != 0 {
		t.Error("not a ready-to-use")
	}
	ev.Ack()
	k.report(id.handle, EventDisconnected, nil)
	if ev := mustGet(t, id.ch); ev.Type != EventDisconnected {
		t.Errorf("%+v", ev)
	}
	if last := qp.states[len(qp.states)-1]; last != verbs.QPStateErr {
		t.Error("QP left in", last)
	}
}

func TestConnectResponseWithoutQP(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	k.report(id.handle, EventConnectResponse, nil)
	if ev := mustGet(t, id.ch); ev.Type != EventConnectResponse {
		t.Errorf("%+v", ev)
	}
}

// A failure after the peer's answer is reported once. Later events of the same connection
// are hidden.
func TestConnectResponseFailure(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	qp := &fakeQP{fail: map[verbs.QPState]error{verbs.QPStateRTR: syscall.EINVAL}}
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	k.report(id.handle, EventConnectResponse, nil)
	ev := mustGet(t, id.ch)
	if ev.Type != EventConnectError || !errors.Is(ev.Err, syscall.EINVAL) {
		t.Fatalf("%+v", ev)
	}
	ev.Ack()
	k.report(id.handle, EventRejected, nil)
	k.report(id.handle, EventTimewaitExit, nil)
	if ev := mustGet(t, id.ch); ev.Type != EventTimewaitExit {
		t.Errorf("%+v", ev)
	} else {
		ev.Ack()
	}
	if err := id.Close(); err != nil { // would hang if the muted event were not acknowledged
		t.Error(err)
	}
}

// A peer that rejects the connection after it has accepted it does not show as an invalid argument: the next event
// is the rejection.
func TestConnectResponseThenRejected(t *testing.T) {
	for _, cmd := range []uint32{abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, abi.RDMA_USER_CM_CMD_ACCEPT} {
		k := newFake()
		id := newTestID(t, k)
		qp := new(fakeQP)
		if err := id.attach(qp, readLimits{16, 16}); err != nil {
			t.Fatal(err)
		}
		k.fail(cmd, syscall.EINVAL)
		k.report(id.handle, EventConnectResponse, nil)
		k.report(id.handle, EventRejected, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(RejectConsumer) })
		ev := mustGet(t, id.ch)
		var rejected *RejectedError
		if ev.Type != EventRejected || !errors.As(ev.Err, &rejected) {
			t.Errorf("command %d: %v %v", cmd, ev.Type, ev.Err)
		}
		ev.Ack()
		if last := qp.states[len(qp.states)-1]; last != verbs.QPStateErr {
			t.Error("QP left in", last)
		}
		if err := id.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGetEnds(t *testing.T) { synctest.Test(t, testGetEnds) }

func testGetEnds(t *testing.T) {
	k := newFake()
	ch := newEventChannel(k)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var e *verbs.Error
	if _, err := ch.Get(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || !e.Timeout() || e.Object == "" {
		t.Error(err)
	}
	got := make(chan error)
	go func() { _, err := ch.Get(t.Context()); got <- err }()
	waiting(t, got)
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := ch.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestGetErrno(t *testing.T) {
	k := newFake()
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	if _, err := newEventChannel(k).Get(t.Context()); !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
}

func TestCloseInUse(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	if err := id.ch.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
}
