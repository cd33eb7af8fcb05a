package rdmacm

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// FuzzEvent decodes arbitrary events.
func FuzzEvent(f *testing.F) {
	seed := func(change func(*abi.RdmaUcmEventResp)) {
		var ev abi.RdmaUcmEventResp
		change(&ev)
		f.Add(bytesOf(&ev), false)
		f.Add(bytesOf(&ev), true)
	}
	seed(func(ev *abi.RdmaUcmEventResp) {})
	seed(func(ev *abi.RdmaUcmEventResp) { ev.Event = 27; ev.Status = 1 << 31 })
	seed(func(ev *abi.RdmaUcmEventResp) {
		ev.Event = uint32(EventRejected)
		p := abi.RdmaUcmConnParam{PrivateDataLen: 255}
		copy(ev.Param[:], bytesOf(&p))
	})
	seed(func(ev *abi.RdmaUcmEventResp) {
		for i := range ev.Param {
			ev.Param[i] = 0xff
		}
	})
	seed(func(ev *abi.RdmaUcmEventResp) {
		ev.Event = uint32(EventMulticastJoin)
		p := abi.RdmaUcmUdParam{QpNum: 1<<24 - 1, Qkey: 0x01234567, PrivateDataLen: 255}
		p.AhAttr.Grh.Dgid = verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
		p.AhAttr.IsGlobal = 1
		copy(ev.Param[:], bytesOf(&p))
	})
	seed(func(ev *abi.RdmaUcmEventResp) { ev.Event = uint32(EventUnreachable); ev.Status = 2 })
	f.Add([]byte("000000000000\x12"), true) // EventUser
	f.Add([]byte{1}, false)
	f.Fuzz(func(t *testing.T, data []byte, datagram bool) {
		resp := view[abi.RdmaUcmEventResp](data)
		ev := decodeEvent(&resp, datagram)
		if len(ev.Param.PrivateData) > maxPrivateData {
			t.Error("private data of", len(ev.Param.PrivateData))
		}
		_ = ev.Type.String()
		if ev.Err != nil {
			_ = ev.Err.Error()
		}
		if (ev.UD != nil) != (datagram && ev.Type != EventUser) {
			t.Error("UD", ev.UD)
		}
	})
}

// FuzzEvents has a channel with IDs of each kind and a membership meet whatever
// a kernel might report: nothing panics, and nothing is left unaccounted.
func FuzzEvents(f *testing.F) {
	for uid := range uint64(6) {
		for _, typ := range []EventType{EventConnectRequest, EventConnectResponse, EventMulticastJoin, EventMulticastError, 27} {
			ev := abi.RdmaUcmEventResp{Uid: uid, Id: 3, Event: uint32(typ)}
			f.Add(bytesOf(&ev))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := newFake()
		ch := newEventChannel(k)
		conn, err := ch.NewID(verbs.PortSpaceTCP, 0)
		if err != nil {
			t.Fatal(err)
		}
		datagram, err := ch.NewID(verbs.PortSpaceUDP, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []*ID{conn, datagram} {
			if err := id.attach(&fakeQP{}, readLimits{}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := datagram.JoinMulticast(group4, JoinFullMember)
		if err != nil {
			t.Fatal(err)
		}
		resp := view[abi.RdmaUcmEventResp](data)
		resp.Uid += conn.uid - 1 // so that small numbers hit
		ev := ch.event(&resp)
		if ev == nil {
			return
		}
		if ev.Multicast != nil && (ev.Multicast != m || ev.ID != datagram) && ev.Type != EventConnectRequest {
			t.Errorf("%+v", ev)
		}
		before := ev.account.acked
		if ev.Ack(); ev.account.acked != before+1 {
			t.Error("not counted")
		}
	})
}
