package uverbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/wait"
)

// AsyncEvent is an event of a device, a port or an object that no work request caused. At
// most one of CQ, QP, SRQ and WQ is set.
//
// C: struct ibv_async_event
type AsyncEvent struct {
	Type EventType
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
	WQ   *WQ
	Port uint32 // for port events, counted from 1
}

// EventType is the kind of an asynchronous event.
//
// C: enum ibv_event_type
type EventType uint32

// The events of the verbs specification.
const (
	EventCQErr            EventType = 0
	EventQPFatal          EventType = 1
	EventQPReqErr         EventType = 2
	EventQPAccessErr      EventType = 3
	EventCommEst          EventType = 4
	EventSQDrained        EventType = 5
	EventPathMig          EventType = 6
	EventPathMigErr       EventType = 7
	EventDeviceFatal      EventType = 8
	EventPortActive       EventType = 9
	EventPortErr          EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQErr           EventType = 14
	EventSRQLimitReached  EventType = 15
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
	EventWQFatal          EventType = 19
)

var eventNames = [...]string{
	"CQ error", "QP fatal error", "QP request error", "QP access error", "communication established",
	"SQ drained", "path migrated", "path migration error", "device fatal error", "port active", "port error",
	"LID change", "P_Key change", "SM change", "SRQ error", "SRQ limit reached", "last WQE reached",
	"client reregister", "GID change", "WQ fatal error",
}

func (t EventType) String() string {
	if t.known() {
		return eventNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint32(t))
}

func (t EventType) known() bool { return t < EventType(len(eventNames)) }

func (t EventType) ofPort() bool {
	switch t {
	case EventPortActive, EventPortErr, EventLIDChange, EventPKeyChange, EventSMChange, EventClientReregister, EventGIDChange:
		return true
	}
	return false
}

// endsQP reports whether the event means that a QP of a connected type has failed.
func (t EventType) endsQP() bool {
	return t == EventQPFatal || t == EventQPReqErr || t == EventQPAccessErr
}

// asyncEvents is a device's event descriptor and the objects that its cookies identify.
type asyncEvents struct {
	reader  *wait.Reader
	mu      sync.Mutex
	objects map[uint64]AsyncEvent
}

// openAsyncEvents creates the event descriptor for all objects. The kernel uses the first
// one that is allocated as the default.
func (d *Device) openAsyncEvents() (*asyncEvents, error) {
	r := d.request(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail("get the async events of", err, "")
	}
	f, err := d.file.Events(int32(r.Created(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)))
	if err != nil {
		return nil, d.fail("get the async events of", err, "")
	}
	return &asyncEvents{reader: wait.NewReader(f, asyncEventSize), objects: make(map[uint64]AsyncEvent)}, nil
}

func (a *asyncEvents) add(cookie uint64, e AsyncEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[cookie] = e
}

func (a *asyncEvents) remove(cookie uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects, cookie)
}

func (a *asyncEvents) close() error { return a.reader.Close() }

// AsyncEvent waits for the next asynchronous event. Several goroutines may wait; each event
// goes to one of them. AsyncEvent skips events of objects that have been closed. It may
// return an event of a QP from before the QP was put into RESET; such an event does not
// affect the QP.
//
// C: ibv_get_async_event and ibv_ack_async_event
func (d *Device) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	for {
		record, err := d.events.reader.Read(ctx)
		if err != nil {
			return AsyncEvent{}, d.waitFailed(ctx, "wait for an event of", err)
		}
		if e, ok := d.events.decode([asyncEventSize]byte(record)); ok {
			if e.QP != nil && e.Type.endsQP() {
				e.QP.onFatalEvent()
			}
			return e, nil
		}
	}
}

// asyncEventSize is the size of struct ib_uverbs_async_event_desc: the element
// (a cookie, or a port number), the type, and a reserved word.
const asyncEventSize = 16

func (a *asyncEvents) decode(record [asyncEventSize]byte) (AsyncEvent, bool) {
	element := binary.NativeEndian.Uint64(record[:])
	typ := EventType(binary.NativeEndian.Uint32(record[8:]))
	switch {
	case typ == EventDeviceFatal, !typ.known(): // the element of an unknown type may be anything
		return AsyncEvent{Type: typ}, true
	case typ.ofPort():
		return AsyncEvent{Type: typ, Port: uint32(element)}, true
	}
	a.mu.Lock()
	e, ok := a.objects[element]
	a.mu.Unlock()
	e.Type = typ
	return e, ok
}
