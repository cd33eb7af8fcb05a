package rdmacm

import (
	"bytes"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// TestRoomIsClean checks that a request's memory has no remains of an earlier request, of any size.
func TestRoomIsClean(t *testing.T) {
	for range 100 { // the race detector has a pool forget now and then
		r := newRequest[abi.RdmaUcmGetEvent, abi.RdmaUcmEventResp](1)
		for i := range r.out() {
			r.out()[i] = 0xff
		}
		r.free()
		next := newRequest[abi.RdmaUcmConnect, struct{}](2)
		if used := next.in()[8:]; !bytes.Equal(used, make([]byte, len(used))) {
			t.Fatalf("% x", used)
		}
		next.free()
	}
}

// TestEventOutlivesRoom keeps events while others are read into the same memory.
func TestEventOutlivesRoom(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	var evs []*Event
	for i := range byte(8) {
		k.report(id.handle, EventRejected, func(ev *abi.RdmaUcmEventResp) {
			p := abi.RdmaUcmConnParam{PrivateDataLen: 200}
			for at := range p.PrivateData {
				p.PrivateData[at] = i
			}
			copy(ev.Param[:], bytesOf(&p))
		})
		evs = append(evs, mustGet(t, id.ch))
	}
	for i, ev := range evs {
		ev.Ack()
		want := bytes.Repeat([]byte{byte(i)}, 200)
		if !bytes.Equal(ev.Param.PrivateData, want) || !bytes.Equal(ev.Err.(*RejectedError).PrivateData, want) {
			t.Errorf("event %d has another's data: % x", i, ev.Param.PrivateData)
		}
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
}
