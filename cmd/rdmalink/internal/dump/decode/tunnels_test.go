package decode

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestTunnels finds the same packet in each kind of tunnel.
func TestTunnels(t *testing.T) {
	packet := udp(append(bth(4, 0), 1, 2, 3, 4)...)
	ethernet := func(kind uint16, rest ...[]byte) []byte {
		return append(binary.BigEndian.AppendUint16(make([]byte, 12), kind), bytes.Join(rest, nil)...)
	}
	vxlan := append([]byte{0xc0, 0, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0}, ethernet(etherIPv4, packet)...)
	v6 := append([]byte{0x60, 0, 0, 0, 0, 0, protoDestination, 9}, make([]byte, 32)...)
	v6 = append(v6, protoIPv4, 0, 1, 4, 0, 0, 0, 0)
	for name, b := range map[string][]byte{
		"QinQ 0x9100":       ethernet(etherQinQ91, []byte{0, 5, 0x81, 0, 0, 6, 8, 0}, packet),
		"MPLS":              ethernet(etherMPLS, []byte{0, 1, 0, 9, 0, 2, 1, 9}, packet),
		"MPLS pseudowire":   ethernet(etherMPLS2, []byte{0, 1, 1, 9, 0, 0, 0, 0}, ethernet(etherIPv4, packet)),
		"PPPoE":             ethernet(etherPPPoE, []byte{0x11, 0, 0, 1, 0, 9, 0, 0x21}, packet),
		"IP in IP":          ethernet(etherIPv4, ipv4(protoIPv4, here, there, packet)),
		"IPv4 in IPv6":      ethernet(etherIPv6, v6, packet),
		"VXLAN":             ethernet(etherIPv4, ipv4(protoUDP, here, there, vxlan)),
		"VXLAN in IP in IP": ethernet(etherIPv4, ipv4(protoIPv4, here, there, ipv4(protoUDP, here, there, vxlan))),
	} {
		if m := one(t, LinkEthernet, b); m.Field("payload", "length") != 4 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestRoCEv1 checks a packet of RoCE v1 and its ICRC.
func TestRoCEv1(t *testing.T) {
	packet := func(class, limit, congestion byte) []byte {
		b := append([]byte{0x60 | class>>4, class<<4 | class&15, class, class, 0, 20, protoIBA, limit}, bytes.Repeat([]byte{0x11}, 32)...)
		transport := bth(4, 0)
		transport[4] = congestion
		return append(append(b, transport...), 1, 2, 3, 4)
	}
	sum := crc32.ChecksumIEEE(append(bytes.Repeat([]byte{255}, 8), packet(255, 255, 255)...))
	sent := binary.LittleEndian.AppendUint32(packet(3, 64, 0), sum)
	m := one(t, LinkEthernet, append(append(make([]byte, 12), 0x89, 0x15), sent...))
	if m.Field("ICRC", "check") != "correct" || m.Field("payload", "length") != 4 || m.Field("BTH", "operation") != "RC SEND_ONLY" {
		t.Errorf("%+v", m)
	}
}

// cut returns the fragments of an IPv4 packet.
func cut(packet []byte, size int) (all [][]byte) {
	body := packet[20:]
	for at := 0; at < len(body); at += size {
		b := append(bytes.Clone(packet[:20]), body[at:min(at+size, len(body))]...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		place := uint16(at / 8)
		if at+size < len(body) {
			place |= 0x2000
		}
		binary.BigEndian.PutUint16(b[6:], place)
		all = append(all, b)
	}
	return all
}

// TestFragments puts datagrams together whose fragments come in any order and again.
func TestFragments(t *testing.T) {
	packet := udp(append(bth(4, 0), make([]byte, 1000)...)...)
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 1, 0, 2}} {
		d, pieces, got := New(), cut(packet, 400), 0
		for _, i := range order {
			all, carries := d.Packet(LinkRaw, pieces[i])
			for _, m := range all {
				got++
				if m.Field("payload", "length") != 1000 {
					t.Errorf("%+v", m)
				}
			}
			if !carries {
				t.Error("a fragment is not saved")
			}
		}
		if got != 1 || len(d.partial) != 0 || len(d.Skipped()) != 0 {
			t.Errorf("%v: %d messages, %v", order, got, d.Skipped())
		}
	}
	d := New()
	for i := range 10 * mostDatagrams { // hostile: none is ever complete
		piece := cut(packet, 400)[0]
		binary.BigEndian.PutUint16(piece[4:], uint16(i))
		d.Packet(LinkRaw, piece)
	}
	if len(d.partial) != mostDatagrams || d.Skipped()["IP fragments of incomplete datagrams"] != 10*mostDatagrams {
		t.Errorf("%d datagrams, %v", len(d.partial), d.Skipped())
	}
	for i := range 2 * mostPieces {
		piece := ipv4(17, here, there, make([]byte, 8))
		binary.BigEndian.PutUint16(piece[6:], 0x2000|uint16(2*i+2))
		d.Packet(LinkRaw, piece)
	}
	for _, one := range d.partial {
		if len(one.pieces) > mostPieces {
			t.Errorf("%d pieces", len(one.pieces))
		}
	}
}

// TestSplitKey checks that the first bytes of a request may come alone, and that a connection whose first bytes
// are those of a key by chance is dropped.
func TestSplitKey(t *testing.T) {
	opening := mpaFrame(keyRequest, 0, "private")
	for n := 1; n < len(opening); n++ {
		d := New()
		first, _ := d.Packet(LinkRaw, segment(here, there, 5, 0, opening[:n]))
		second, _ := d.Packet(LinkRaw, segment(here, there, 5+uint32(n), 0, opening[n:]))
		if len(first) != 0 || len(second) != 1 || second[0].Field("MPA", "frame") != "request" {
			t.Errorf("after %d bytes: %v, %v", n, first, second)
		}
	}
	d := New()
	d.Packet(LinkRaw, segment(here, there, 5, 0, []byte("MPA")))
	if all, _ := d.Packet(LinkRaw, segment(here, there, 8, 0, []byte("x"))); len(all) != 0 || len(d.flows) != 0 {
		t.Errorf("%v, %d flows", all, len(d.flows))
	}
}

// TestLongerAgain sends a segment that came early again, with more data.
func TestLongerAgain(t *testing.T) {
	d, opening := New(), mpaFrame(keyRequest, 0x40, "")
	stream := append(append(fpdu(1, "a"), fpdu(2, "b")...), fpdu(3, "c")...)
	start := uint32(len(opening))
	d.Packet(LinkRaw, segment(here, there, 0, 0, opening))
	d.Packet(LinkRaw, segment(here, there, start+10, 0, stream[10:20]))
	d.Packet(LinkRaw, segment(here, there, start+10, 0, stream[10:]))
	if got := d.Skipped(); len(got) != 1 {
		t.Errorf("waiting: %v", got)
	}
	all, _ := d.Packet(LinkRaw, segment(here, there, start, 0, stream[:10]))
	if len(all) != 3 || d.held != 0 || len(d.Skipped()) != 0 {
		t.Errorf("%d frames, %d bytes stay, %v", len(all), d.held, d.Skipped())
	}
}

// TestEndOfConnection checks that nothing is dropped without a word when a connection ends: a FIN that comes early
// waits for the segments before it, and what lacks something is reported.
func TestEndOfConnection(t *testing.T) {
	const fin, rst, syn = 1, 4, 2
	opening := mpaFrame(keyRequest, 0x40, "")
	start := uint32(len(opening))
	stream := append(fpdu(1, "a"), fpdu(2, "b")...)
	half := len(stream) / 2
	first, second := stream[:half], stream[half:]
	at := start + uint32(half)
	end := start + uint32(len(stream))
	missing := map[string]int{"TCP segments before which others are missing": 1}
	for name, test := range map[string]struct {
		segments [][]byte
		frames   int
		damaged  string
		skipped  map[string]int
		flows    int
	}{
		"in order":             {[][]byte{segment(here, there, start, 0, first), segment(here, there, at, fin, second)}, 2, "", nil, 0},
		"FIN early":            {[][]byte{segment(here, there, at, fin, second), segment(here, there, start, 0, first)}, 2, "", nil, 0},
		"FIN alone and early":  {[][]byte{segment(here, there, end, fin, nil), segment(here, there, at, 0, second), segment(here, there, start, 0, first)}, 2, "", nil, 0},
		"a gap before the FIN": {[][]byte{segment(here, there, at, fin, second)}, 0, "", missing, 1},
		"a gap before an RST":  {[][]byte{segment(here, there, at, 0, second), segment(here, there, end, rst, nil)}, 0, "", missing, 0},
		"a gap before a SYN":   {[][]byte{segment(here, there, at, 0, second), segment(here, there, 99, syn, nil)}, 0, "", missing, 0},
		"FIN within a frame": {[][]byte{segment(here, there, start, 0, first), segment(here, there, at, fin, second[:9])}, 1,
			"the connection ends within a frame", nil, 0},
		"RST within a frame": {[][]byte{segment(here, there, start, 0, first[:9]), segment(here, there, start+9, rst, nil)}, 0,
			"the connection ends within a frame", nil, 0},
		"the capture ends within a frame": {[][]byte{segment(here, there, start, 0, first[:9])}, 0, "",
			map[string]int{"TCP segments with the beginning of a frame that does not end": 1}, 1},
	} {
		d := New()
		d.Packet(LinkRaw, segment(here, there, 0, 0, opening))
		frames, damaged := 0, ""
		for _, b := range test.segments {
			all, _ := d.Packet(LinkRaw, b)
			for _, m := range all {
				if why := m.Field("damaged", "why"); why != nil {
					damaged = why.(string)
				} else {
					frames++
				}
			}
		}
		if frames != test.frames || damaged != test.damaged || !maps.Equal(d.Skipped(), test.skipped) || len(d.flows) != test.flows {
			t.Errorf("%s: %d frames, %q, %v, %d flows", name, frames, damaged, d.Skipped(), len(d.flows))
		}
	}
}

// TestSkipped checks the reasons for which packets are skipped, whose number is bounded.
func TestSkipped(t *testing.T) {
	d := New()
	other := udp(1, 2)
	other[22] = 1
	for _, b := range [][]byte{other, ipv4(47, here, there, nil), segment(here, there, 1, 0, []byte("HTTP")), {0x45}} {
		d.Packet(LinkRaw, b)
	}
	d.Packet(LinkEthernet, append(make([]byte, 12), 8, 6))
	d.Packet(LinkRaw, segment(here, there, 1, 0, nil)) // an acknowledgement lacks nothing
	got := strings.Join(slices.Sorted(maps.Keys(d.Skipped())), ", ")
	if want := "EtherType 0x0806, IP protocol 47, TCP of no iWARP connection whose beginning was captured, UDP to other ports than RoCE's, damaged or truncated headers"; got != want {
		t.Error(got)
	}
	for i := range 256 {
		d.Packet(LinkEthernet, append(make([]byte, 12), 7, byte(i)))
	}
	if n := len(d.Skipped()); n > mostReasons+1 {
		t.Errorf("%d reasons", n)
	}
}
