package ibcm_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"reflect"
	"testing"

	"github.com/goverbs/goverbs/internal/ibcm"
	"github.com/goverbs/goverbs/internal/roce"
)

// messages returns the messages between two hosts with Linux's rxe, in a capture.
func messages(t testing.TB) (all [][]byte) {
	const fileHeader, recordHeader, ethernet, ipv4, udp = 24, 16, 14, 20, 8
	b, err := os.ReadFile("../../cmd/rdmalink/internal/dump/decode/testdata/rxe-cm.pcap")
	if err != nil {
		t.Fatal(err)
	}
	for b = b[fileHeader:]; len(b) > 0; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		frame := b[recordHeader:][:n]
		b = b[recordHeader+n:]
		const port = ethernet + ipv4 + 2
		if len(frame) < port+2 || binary.BigEndian.Uint16(frame[port:]) != roce.Port {
			continue
		}
		if p, err := roce.Parse(frame[ethernet+ipv4+udp : n-roce.ICRCSize]); err == nil && p.DestQPN == ibcm.QP {
			if p.QKey != ibcm.QKey {
				t.Errorf("Q_Key %#x", p.QKey)
			}
			all = append(all, p.Payload)
		}
	}
	return all
}

// Messages of Linux are read, and written again as they were, except for what this package always writes in the same way.
func TestLinux(t *testing.T) {
	kinds := make(map[ibcm.Kind]bool)
	for _, want := range messages(t) {
		m, err := ibcm.Parse(want)
		if err != nil {
			t.Fatal(err)
		}
		kinds[m.Kind] = true
		got := m.Marshal()
		if m.Kind == ibcm.REQ {
			const rate = 24 + 91
			got[rate] = want[rate]
			if m.Space != ibcm.SpaceTCP || !m.Src.IsValid() || m.LocalGID != m.Src.Addr().As16() || m.RemoteGID != m.Dst.As16() {
				t.Errorf("%+v", m)
			}
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("message %#x: byte %d is %#x, want %#x", m.Kind, i, got[i], want[i])
			}
		}
	}
	if len(kinds) < 8 { // all but MRA
		t.Errorf("only the kinds %v", kinds)
	}
}

// Each kind of message is read as it was written.
func TestAgain(t *testing.T) {
	for kind := ibcm.REQ; kind <= ibcm.SIDRREP; kind++ {
		m := ibcm.Message{Kind: kind, Src: netip.MustParseAddrPort("[2001:db8::1]:5"), Dst: netip.MustParseAddr("2001:db8::2")}
		b := m.Marshal()
		for i := 24; i < len(b); i++ { // all fields have some value
			if kind != ibcm.REQ && kind != ibcm.SIDRREQ || i < 24+16 {
				b[i] = byte(i)
			}
		}
		first, err := ibcm.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		second, err := ibcm.Parse(first.Marshal())
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%+v, %v\nafter\n%+v", second, err, first)
		}
	}
}

// Fields have their place and width, with other bits around them.
func TestFields(t *testing.T) {
	read := func(kind ibcm.Kind, set func(b []byte)) ibcm.Message {
		t.Helper()
		m := ibcm.Message{Kind: kind, Src: netip.MustParseAddrPort("192.0.2.1:5"), Dst: netip.MustParseAddr("192.0.2.2")}
		b := m.Marshal()
		set(b[24:])
		m, err := ibcm.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ones := func(b []byte) {
		for i := range b[:96] {
			b[i] = 0xff
		}
	}
	m := read(ibcm.REQ, ones)
	if got, want := [...]uint8{m.Transport, m.FlowControl, m.RetryCount, m.MTU, m.RNRRetry, m.SRQ, m.AckTimeout}, [...]uint8{3, 1, 7, 15, 7, 1, 31}; got != want || m.QPN != 1<<24-1 || m.PSN != 1<<24-1 || m.FlowLabel != 1<<20-1 {
		t.Errorf("REQ: %v, want %v: %+v", got, want, m)
	}
	m = read(ibcm.REP, ones)
	if got, want := [...]uint8{m.AckDelay, m.FlowControl, m.RNRRetry, m.SRQ}, [...]uint8{31, 1, 7, 1}; got != want {
		t.Errorf("REP: %v, want %v", got, want)
	}
	m, refusal := read(ibcm.MRA, ones), read(ibcm.REJ, ones)
	if got, want := [...]uint8{m.Of, m.Timeout, refusal.Of}, [...]uint8{3, 31, 3}; got != want {
		t.Errorf("MRA and REJ: %v, want %v", got, want)
	}
	m = read(ibcm.REQ, func(b []byte) { copy(b[88:], []byte{0x12, 0x34, 0x5f, 0xff, 0x67, 0x89, 0xff, 0xaf}) })
	if m.FlowLabel != 0x12345 || m.TrafficClass != 0x67 || m.HopLimit != 0x89 || m.AckTimeout != 0xaf>>3 {
		t.Errorf("%+v", m)
	}
	m = read(ibcm.REP, func(b []byte) { copy(b[24:], []byte{1, 2, 0x1f, 0x20}) })
	if m.ResponderResources != 1 || m.InitiatorDepth != 2 || m.AckDelay != 3 || m.FlowControl != 1 || m.RNRRetry != 1 || m.SRQ != 0 {
		t.Errorf("%+v", m)
	}
}

// Other management datagrams, and those that are too short, are refused. A request without the addresses of rdma_cm has none.
func TestOther(t *testing.T) {
	request := ibcm.Message{Kind: ibcm.REQ, Src: netip.MustParseAddrPort("192.0.2.1:5"), Dst: netip.MustParseAddr("192.0.2.2")}
	const kind, addresses = 17, 24 + 140
	for name, change := range map[string]func(b []byte) []byte{
		"short":           func(b []byte) []byte { return b[: ibcm.Size-1 : ibcm.Size-1] },
		"base version":    func(b []byte) []byte { b[0]++; return b },
		"class":           func(b []byte) []byte { b[1]++; return b },
		"version":         func(b []byte) []byte { b[2]++; return b },
		"method":          func(b []byte) []byte { b[3]++; return b },
		"LAP, not a kind": func(b []byte) []byte { b[kind] = 0x19; return b },
	} {
		if m, err := ibcm.Parse(change(request.Marshal())); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for at, value := range map[int]byte{addresses: 1, addresses + 1: 5 << 4} {
		b := request.Marshal()
		b[at] = value
		if m, err := ibcm.Parse(b); err != nil || m.Src.IsValid() || m.Dst.IsValid() {
			t.Errorf("byte %d: %+v, %v", at, m, err)
		}
	}
}

// What is read can be written, and reads the same.
func FuzzParse(f *testing.F) {
	for _, b := range messages(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ibcm.Parse(b)
		if err != nil {
			return
		}
		again, err := ibcm.Parse(m.Marshal())
		if err != nil || !bytes.Equal(again.Private, m.Private) {
			t.Fatalf("%+v, %v", again, err)
		}
		if again.Private, m.Private = nil, nil; m.Dst.IsValid() && !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v\nafter\n%+v", again, m)
		}
	})
}
