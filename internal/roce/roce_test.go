package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"
)

// Each operation's packets are read as they were written.
func TestPackets(t *testing.T) {
	for op, o := range Operations {
		if o.Parts&HasFETH != 0 {
			continue
		}
		for _, service := range []byte{ServiceRC, ServiceUC, ServiceUD} {
			p := Packet{Opcode: service<<5 | op, Solicited: true, AckRequest: true, PKey: 0xffff, DestQPN: 0x123456, PSN: 0xfedcba, Payload: []byte("seven b")}
			if service == ServiceUD {
				p.QKey, p.SrcQPN = 0x80010000, 0xabcdef
			}
			if o.Parts&(HasRETH|HasAtomicETH) != 0 {
				p.VA, p.RKey = 0x1122334455667788, 0x99aabbcc
			}
			if o.Parts&HasRETH != 0 {
				p.Length = 0x01020304
			}
			if o.Parts&HasAtomicETH != 0 {
				p.Swap, p.Compare = 1<<63|5, 1<<62|6
			}
			if o.Parts&HasAETH != 0 {
				p.Syndrome, p.MSN = SyndromeNAK|NAKRemoteAccess, 0x10203
			}
			if o.Parts&HasAtomicAckETH != 0 {
				p.Original = 1<<61 | 7
			}
			if o.Parts&HasImmDt != 0 {
				p.Imm = 0xcafe
			}
			if o.Parts&HasIETH != 0 {
				p.Invalid = 0xbeef
			}
			b := p.Append(nil)
			got, err := Parse(b)
			if err != nil || !reflect.DeepEqual(got, p) {
				t.Errorf("%s of service %d: %+v, %v; want %+v", o.Name, service, got, err, p)
			}
			if head := len(b) - 8; head >= 0 {
				if _, err := Parse(b[:head-len(b)%4]); err == nil && o.Parts != 0 && len(p.Payload) > 8 {
					t.Errorf("%s: a truncated packet has no error", o.Name)
				}
			}
		}
	}
}

// Reserved bits of a BTH are ignored.
func TestReserved(t *testing.T) {
	want := Packet{Opcode: Acknowledge, DestQPN: 5, PSN: 6}
	b := want.Append(nil)
	b[4], b[8] = 0xff, 0x7f // before the numbers of the queue pair and of the packet
	if got, err := Parse(b); err != nil || got.AckRequest || got.DestQPN != want.DestQPN || got.PSN != want.PSN {
		t.Errorf("%+v, %v", got, err)
	}
}

// Packets that are cut, or have a version, service, operation or length that RoCE hasn't, are refused.
func TestDamaged(t *testing.T) {
	write := Packet{Opcode: WriteOnly, Payload: make([]byte, MostPayload)}
	const flags = 1
	for name, change := range map[string]func(b []byte) []byte{
		"shorter than a BTH":    func(b []byte) []byte { return b[: bthSize-1 : bthSize-1] },
		"shorter than its RETH": func(b []byte) []byte { return b[:bthSize+15] },
		"less than its padding": func(b []byte) []byte { b[flags] |= 3 << 4; return b[:bthSize+16+2] },
		"too long":              func(b []byte) []byte { return append(b, 0) },
		"version 1":             func(b []byte) []byte { b[flags] |= 1; return b },
		"service RD":            func(b []byte) []byte { b[0] |= ServiceRD << 5; return b },
		"service XRC":           func(b []byte) []byte { b[0] |= ServiceXRC << 5; return b },
		"FLUSH":                 func(b []byte) []byte { b[0] = 0x1c; return b },
	} {
		if _, err := Parse(write.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if p, err := Parse(change(write.Append(nil))); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Any identification of IPv4, which a socket does not show, is taken for
// correct; another damaged bit is found. Package decode checks the ICRC of packets that Linux sent.
func TestICRC(t *testing.T) {
	r := Route{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: 51234}
	p := Packet{Opcode: SendOnly, PKey: 0xffff, DestQPN: 17, PSN: 5, Payload: []byte("hello, world")}
	b := p.Append(nil)
	for _, id := range []uint16{0, 1, 0x8000, 0xffff, 0x1234} {
		for _, fragments := range []uint16{0, dontFragment} {
			ip, udp := r.headers(len(b)+ICRCSize, fragments)
			binary.BigEndian.PutUint16(ip[4:], id)
			whole := binary.LittleEndian.AppendUint32(bytes.Clone(b), ICRC(ip, append(udp, b...), udpSize))
			if got, ok := r.Check(whole); !ok || !bytes.Equal(got, b) {
				t.Errorf("identification %#x, fragments %#x: incorrect", id, fragments)
			}
			wrong := 0
			for bit := range 8 * len(whole) {
				if at := bit / 8; at == 4 {
					continue // it is masked
				}
				whole[bit/8] ^= 1 << (bit % 8)
				if _, ok := r.Check(whole); !ok {
					wrong++
				}
				whole[bit/8] ^= 1 << (bit % 8)
			}
			if wrong != 8*(len(whole)-1) {
				t.Errorf("identification %#x: of %d damaged packets, %d are found", id, 8*(len(whole)-1), wrong)
			}
		}
	}
	for _, fragments := range []uint16{1, 0x100, 0x2000, 0x8000} { // any bit but that of an unfragmented packet
		ip, udp := r.headers(len(b)+ICRCSize, dontFragment^fragments)
		if _, ok := r.Check(binary.LittleEndian.AppendUint32(bytes.Clone(b), ICRC(ip, append(udp, b...), udpSize))); ok {
			t.Errorf("fragments %#x: correct", fragments)
		}
	}
	r6 := Route{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), SrcPort: Port}
	whole := r6.AppendICRC(bytes.Clone(b))
	if _, ok := r6.Check(whole); !ok {
		t.Error("IPv6: incorrect")
	}
	whole[20] ^= 1
	if _, ok := r6.Check(whole); ok {
		t.Error("IPv6: a damaged packet is correct")
	}
}

// What routers change does not change the ICRC.
func TestVariant(t *testing.T) {
	packet := (&Packet{Opcode: SendOnly, PKey: 0xffff, DestQPN: 17, PSN: 5, Payload: []byte("data")}).Append(nil)
	for _, r := range []Route{{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2")}, {Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2")}} {
		ip, udp := r.headers(len(packet)+ICRCSize, dontFragment)
		b := append(udp, packet...)
		want := ICRC(ip, b, udpSize)
		variant := map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff} // traffic class, flow label, hop limit
		if r.Dst.Is4() {
			variant = map[int]byte{1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff} // type of service, time to live, checksum
		}
		for at := range ip {
			for bit := range 8 {
				ip[at] ^= 1 << bit
				if same := ICRC(ip, b, udpSize) == want; at > 0 && same != (variant[at]>>bit&1 == 1) || at == 0 && bit < 4 && r.Dst.Is6() && !same {
					t.Errorf("%v: bit %d of byte %d: %v", r.Dst, bit, at, same)
				}
				ip[at] ^= 1 << bit
			}
		}
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			same := ICRC(ip, b, udpSize) == want
			if at := bit / 8; same != (at == 6 || at == 7 || at == udpSize+4) { // UDP's checksum, congestion bits of the BTH
				t.Errorf("%v: bit %d of byte %d behind the IP header: %v", r.Dst, bit%8, at, same)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&Packet{Opcode: ServiceUD<<5 | SendOnlyImm, Payload: []byte("x")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		if again, err := Parse(p.Append(nil)); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%+v, %v; want %+v", again, err, p)
		}
	})
}
