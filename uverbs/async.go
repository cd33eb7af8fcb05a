package uverbs

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"weak"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// AsyncEvent is an event of a device, a port or an object that no work request caused. At
// most one of CQ, QP, SRQ and WQ is set.
//
// C: struct ibv_async_event
type AsyncEvent struct {
	Type verbs.EventType
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
	WQ   *WQ
	Port int // for port events, counted from 1
}

func knownEvent(t verbs.EventType) bool { return t <= verbs.EventWQFatal }

func ofPort(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortActive, verbs.EventPortErr, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventSMChange,
		verbs.EventClientReregister, verbs.EventGIDChange:
		return true
	}
	return false
}

// endsQP reports whether the event means that a QP of a connected type has failed.
func endsQP(t verbs.EventType) bool {
	return t == verbs.EventQPFatal || t == verbs.EventQPReqErr || t == verbs.EventQPAccessErr
}

// asyncEvents is a device's event descriptor and the objects that its cookies identify. A goroutine reads
// the events, so that they end QPs and waits also if the program never calls AsyncEvent. It must not keep
// the device reachable, so the objects are held weakly.
type asyncEvents struct {
	reader *wait.Reader
	some   chan struct{} // holds a token after an event was queued
	ended  chan struct{} // closed when no more events can be read
	err    error         // the reason; set before ended is closed

	mu      sync.Mutex // guards the fields below
	objects map[uint64]weakObject
	queue   []asyncRecord // what AsyncEvent has not returned yet
}

// asyncRecord is a struct ib_uverbs_async_event_desc: the element (a cookie, or a port number), the type, and
// a reserved word.
type asyncRecord [16]byte

// mostQueued is the number of events that wait for AsyncEvent.
const mostQueued = 4096

// weakObject is the object of an AsyncEvent. At most one is set.
type weakObject struct {
	cq  weak.Pointer[CQ]
	qp  weak.Pointer[QP]
	srq weak.Pointer[SRQ]
	wq  weak.Pointer[WQ]
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
	a := &asyncEvents{reader: wait.NewReader(f, len(asyncRecord{})), some: make(chan struct{}, 1),
		ended: make(chan struct{}), objects: make(map[uint64]weakObject)}
	go a.serve()
	return a, nil
}

func (a *asyncEvents) add(cookie uint64, e AsyncEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[cookie] = weakObject{weak.Make(e.CQ), weak.Make(e.QP), weak.Make(e.SRQ), weak.Make(e.WQ)}
}

func (a *asyncEvents) remove(cookie uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects, cookie)
}

func (a *asyncEvents) close() error { return a.reader.Close() }

// serve reads events until the descriptor is closed or fails.
func (a *asyncEvents) serve() {
	a.err = a.reader.Serve(func(b []byte) { a.take(asyncRecord(b)) })
	close(a.ended)
}

// take lets an event take effect, and then queues it for AsyncEvent.
func (a *asyncEvents) take(record asyncRecord) {
	e, ok := a.decode(record)
	if !ok {
		return
	}
	switch {
	case e.QP != nil && endsQP(e.Type):
		e.QP.onFatalEvent()
	case e.CQ != nil && e.Type == verbs.EventCQErr:
		e.CQ.onOverflow()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == mostQueued {
		a.queue = slices.Delete(a.queue, 0, 1)
	}
	a.queue = append(a.queue, record)
	a.signal()
}

// signal wakes one AsyncEvent.
func (a *asyncEvents) signal() {
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// next takes the oldest event off the queue. It skips events of objects that are gone.
func (a *asyncEvents) next() (AsyncEvent, bool) {
	for {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.mu.Unlock()
			return AsyncEvent{}, false
		}
		record := a.queue[0]
		if a.queue = slices.Delete(a.queue, 0, 1); len(a.queue) > 0 {
			a.signal() // for the next AsyncEvent
		}
		a.mu.Unlock()
		if e, ok := a.decode(record); ok {
			return e, true
		}
	}
}

// AsyncEvent waits for the next asynchronous event. Several goroutines may wait; each event
// goes to one of them. AsyncEvent skips events of objects that have been closed. It may
// return an event of a QP from before the QP was put into RESET; such an event does not
// affect the QP. Up to 4096 events wait for AsyncEvent; of more, the oldest are dropped.
//
// C: ibv_get_async_event and ibv_ack_async_event
func (d *Device) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	const op = "wait for an event of"
	if d.isZero() {
		return AsyncEvent{}, d.fail(op, verbs.ErrClosed, "")
	}
	for ctx.Err() == nil {
		if e, ok := d.events.next(); ok {
			return e, nil
		}
		select {
		case <-d.events.some:
			continue
		case <-ctx.Done():
			continue
		case <-d.events.ended:
		}
		if e, ok := d.events.next(); ok { // it came first
			return e, nil
		}
		return AsyncEvent{}, d.waitFailed(ctx, op, d.events.err)
	}
	return AsyncEvent{}, d.waitFailed(ctx, op, ctx.Err())
}

func (a *asyncEvents) decode(record asyncRecord) (AsyncEvent, bool) {
	element := binary.NativeEndian.Uint64(record[:])
	typ := verbs.EventType(binary.NativeEndian.Uint32(record[8:]))
	switch {
	case typ == verbs.EventDeviceFatal, !knownEvent(typ): // the element of an unknown type may be anything
		return AsyncEvent{Type: typ}, true
	case ofPort(typ):
		return AsyncEvent{Type: typ, Port: int(uint32(element))}, true
	}
	a.mu.Lock()
	o := a.objects[element]
	a.mu.Unlock()
	e := AsyncEvent{CQ: o.cq.Value(), QP: o.qp.Value(), SRQ: o.srq.Value(), WQ: o.wq.Value()}
	ok := e != AsyncEvent{}
	e.Type = typ
	return e, ok
}
