package main

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/netip"
	"slices"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// packets shows the GIDs of a port, and decodes packets that Linux 6.12 has sent.
func packets(l *lab) {
	addrs := []netip.Addr{netip.MustParseAddr("fe80::5054:ff:fe12:3456"), netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")}
	fabric := rdmatest.NewWith(l, &rdmatest.Options{Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{{Addrs: addrs}}}}})
	dev := closing(l, must(uverbs.Open(fabric.Host(0).Device(0).Name())))
	for _, e := range must(dev.GIDTable()) {
		text := e.GID.String()
		if e.Index == 0 { // its hardware address differs in each run
			text = "link-local, made of the hardware address"
		}
		l.say("GID %d, %v: %s", e.Index, e.Type, text)
	}
	l.say("goverbs chooses GID %d", must(dev.ChooseGID(1, nil)).Index)
	l.fields(roce, roceFields)
	l.say("the ICRC computed here: %08x", icrc(roce))
	l.fields(iwarp, iwarpFields)
}

// roce is a READ request that rxe of Linux 6.12 has sent, iwarp a WRITE of siw.
var (
	roce = unhex("02000085000202000085000108004500003c178e400040110e770a5500010a550002" + "c17c12b700280000" +
		"0c00ffff00000013803c28f1" + "0000560b094770000000042500000bb8" + "0e36fb8c")
	iwarp = unhex("0000000000000000000000000800450000ac80f640004006a4ba0a4d00010a4d00011c0695d67dfd8907c1f4fc8380180200153a00000101080aaf3e62dac8237138" +
		"0072c140f0379c000000564d49b38d10" +
		"72646d612d70696e672d313a2042434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768" +
		"696a6b6c6d6e6f707172737475767778797a4142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d0000000000")
)

// field names the next bytes of a packet.
type field struct {
	name  string
	bytes int
}

var roceFields = []field{{"Ethernet: to, from, IPv4", 14}, {"IPv4: protocol 17 is UDP", 20}, {"UDP: to port 4791", 8},
	{"BTH: opcode 12, READ request", 1}, {"     solicited, migrated, pad, version", 1}, {"     P_Key", 2}, {"     reserved", 1}, {"     destination QP", 3},
	{"     bit 7 asks for an ACK", 1}, {"     PSN", 3},
	{"RETH: address", 8}, {"      rkey", 4}, {"      length, 3000", 4}, {"ICRC", 4}}

var iwarpFields = []field{{"Ethernet", 14}, {"IPv4: protocol 6 is TCP", 20}, {"TCP, with options", 32},
	{"MPA: length of the FPDU, 114", 2}, {"DDP: tagged, last, version 1", 1}, {"RDMAP: version 1, opcode 0, WRITE", 1},
	{"DDP: STag", 4}, {"     tagged offset", 8}, {"data, 100 bytes", 100}, {"MPA: CRC, which siw leaves out by default", 4}}

// fields prints a packet, a line for each field.
func (l *lab) fields(packet []byte, fields []field) {
	at := 0
	for _, f := range fields {
		if b := packet[at : at+f.bytes]; len(b) > 20 {
			l.say("%3d  %-41s %x…", at, f.name, b[:16])
		} else {
			l.say("%3d  %-41s %x", at, f.name, b)
		}
		at += f.bytes
	}
}

// icrc returns the invariant CRC of a RoCE v2 packet over IPv4. It covers 8 bytes of ones in
// place of InfiniBand's header, then all from the IP header on. Fields that routers change count as ones.
func icrc(packet []byte) []byte {
	b := slices.Concat(slices.Repeat([]byte{0xff}, 8), packet[14:len(packet)-4])
	ip, udp, bth := b[8:], b[28:], b[36:]
	for _, changed := range [][]byte{ip[1:2], ip[8:9], ip[10:12], udp[6:8], bth[4:5]} { // TOS, TTL, checksums, congestion bits
		copy(changed, []byte{0xff, 0xff})
	}
	return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
}

func unhex(text string) []byte { return must(hex.DecodeString(text)) }
