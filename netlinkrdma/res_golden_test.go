package netlinkrdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func u16be(v uint16) string { return string(binary.BigEndian.AppendUint16(nil, v)) }
func u16(v uint16) string   { return string(binary.NativeEndian.AppendUint16(nil, v)) }

// storage fills a sockaddr up to the size of the kernel's.
func storage(s string) string { return s + zeros(sockaddrStorage-len(s)) }

var (
	inet    = storage(u16(afINET) + u16be(7174) + "\x0a\x01\x01\x01")
	inet6   = storage(u16(afINET6) + u16be(65535) + zeros(4) + "\xfd\x01" + zeros(13) + "\x02")
	ib      = storage(u16(afIB) + u16be(0xffff) + zeros(4) + "\xfe\x80" + zeros(13) + "\x01" + "\x00\x00\x00\x00\x01\x3f\x1c\x06" + strings.Repeat("\xff", 8))
	strange = storage(u16(17) + "hello")
)

// driverTable has an attribute of each type, one with a print type, one of a
// type that nobody knows, and padding.
var driverTable = attr(abi.RDMA_NLDEV_ATTR_DRIVER,
	attr(54, "name\x00")+attr(54, "text\x00")+
		attr(54, "s32\x00")+attr(56, u32(0xfffffffb))+
		attr(54, "strange\x00")+attr(4000, "?")+
		attr(54, "u32\x00")+attr(55, "\x01")+attr(57, u32(0xffffffff))+
		attr(54, "s64\x00")+attr(0, "")+attr(58, u64(1<<63))+
		attr(54, "u64\x00")+attr(55, "\x02")+attr(59, u64(1<<63)))

var driverAttrs = []DriverAttr{
	{Name: "name", Kind: DriverString, Text: "text"},
	{Name: "s32", Kind: DriverS32, Number: 0xfffffffffffffffb},
	{Name: "u32", Kind: DriverU32, Hex: true, Number: 0xffffffff},
	{Name: "s64", Kind: DriverS64, Number: 1 << 63},
	{Name: "u64", Kind: DriverU64, Number: 1 << 63},
}

var (
	process = attr(28, u32(4711))
	module  = attr(29, "ib_core\x00")
)

// goldens hold every attribute of every kind of objects, by the numbers of
// the kernel's header, and what no kernel sends: unknown ones.
var goldens = []golden{
	{"QP", parses(parseQP),
		attr(3, u32(2)) + attr(21, u32(17)) + attr(60, u32(9)) + process + attr(22, u32(18)) + attr(23, u32(1<<24)) + attr(24, u32(5)) +
			attr(25, "\x02") + attr(26, "\xff") + attr(27, "\x06") + attr(98, "REG_UMR\x00") + driverTable,
		QP{
			Owner: Owner{TID: 4711}, Port: 2, LQPN: 17, Type: verbs.QPTypeDriver, Subtype: "REG_UMR", State: 6, SQPSN: 5,
			RQPN: known[uint32](18), RQPSN: known[uint32](1 << 24), PathMigState: known(verbs.PathMigState(2)), PDN: known[uint32](9), Driver: driverAttrs,
		}, 21},
	{"the kernel's QP", parses(parseQP), attr(21, u32(1)) + module + attr(24, u32(0)) + attr(26, "\x01") + attr(27, "\x03"),
		QP{Owner: Owner{Kernel: "ib_core"}, LQPN: 1, Type: 1, State: 3}, 26},
	{"CM id", parses(parseCMID),
		attr(3, u32(1)) + attr(21, u32(17)) + attr(26, "\x02") + attr(32, u32(0x106)) + attr(27, "\x05") + attr(33, inet) + attr(34, inet6) +
			attr(63, u32(3)) + process + driverTable,
		CMID{
			Owner: Owner{TID: 4711}, Port: 1, CMIDN: 3, LQPN: 17, QPType: known(verbs.QPType(2)), PS: abi.RDMA_PS_TCP, State: 5,
			Src: at("10.1.1.1:7174"), Dst: at("[fd01::2]:65535"), Driver: driverAttrs,
		}, 63},
	{"CM id of InfiniBand", parses(parseCMID), attr(32, u32(0x13f)) + attr(27, "\x08") + attr(33, ib) + attr(34, strange) + attr(63, u32(0)) + module,
		CMID{
			Owner: Owner{Kernel: "ib_core"}, PS: abi.RDMA_PS_IB, State: 8, Src: CMAddr{Family: afIB, AddrPort: at("[fe80::1]:7174").AddrPort},
			Dst: CMAddr{Family: 17, Raw: []byte(strange)},
		}, 32},
	{"CQ", parses(parseCQ), attr(37, u32(255)) + attr(0, "") + attr(38, u64(1<<40)) + attr(39, "\x03") + attr(84, "\x01") + attr(61, u32(6)) + attr(64, u32(1)) + process + driverTable,
		CQ{
			Owner: Owner{TID: 4711}, CQN: 6, CQE: 255, Users: 1 << 40, PollContext: known(PollContext(3)), AdaptiveModeration: known(true),
			CTXN: known[uint32](1), Driver: driverAttrs,
		}, 37},
	{"CQ with strange moderation", parses(parseCQ), attr(37, u32(1)) + attr(38, u64(0)) + attr(84, "\x07") + attr(61, u32(6)), CQ{CQN: 6, CQE: 1}, 61},
	{"MR", parses(parseMR), attr(42, u32(0x1a2b)) + attr(43, u32(0xffffffff)) + attr(44, u64(1<<47)) + attr(45, u64(1<<40)) + attr(62, u32(8)) + attr(60, u32(2)) + process + driverTable,
		MR{
			Owner: Owner{TID: 4711}, MRN: 8, RKey: known[uint32](0x1a2b), LKey: known[uint32](0xffffffff), IOVA: known[uint64](1 << 47),
			Length: 1 << 40, PDN: known[uint32](2), Driver: driverAttrs,
		}, 45},
	{"PD", parses(parsePD), attr(48, u32(0)) + attr(49, u32(7)) + attr(38, u64(3)) + attr(60, u32(2)) + attr(64, u32(1)) + process + driverTable,
		PD{
			Owner: Owner{TID: 4711}, PDN: 2, Users: 3, LocalDMALKey: known[uint32](0), UnsafeGlobalRKey: known[uint32](7),
			CTXN: known[uint32](1), Driver: driverAttrs,
		}, 60},
	{"context", parses(parseContext), attr(64, u32(5)) + process + driverTable, Context{Owner: Owner{TID: 4711}, CTXN: 5, Driver: driverAttrs}, 64},
	{"SRQ", parses(parseSRQ),
		attr(90, u32(4)) + attr(26, "\x02") + attr(60, u32(2)) + attr(61, u32(6)) +
			attr(0x8000|19, attr(0x8000|20, attr(21, u32(17)))+attr(0x8000|20, attr(91, u32(19))+attr(92, u32(30)))) + process + driverTable,
		SRQ{
			Owner: Owner{TID: 4711}, SRQN: 4, Type: 2, PDN: known[uint32](2), CQN: known[uint32](6), LQPN: []QPRange{{17, 17}, {19, 30}}, Driver: driverAttrs,
		}, 26},
	{"SRQ without QPs", parses(parseSRQ), attr(0x8000|19, "") + attr(90, u32(0)) + attr(26, "\x00"), SRQ{}, 90},
	{"raw", parses(parseRaw), attr(85, "\x01\x00\xff"), []byte{1, 0, 255}, 85},
}

type golden struct {
	name  string
	parse func([]byte) (any, error)
	attrs string
	want  any
	needs uint16 // an attribute that can't be left out
}

// parses makes the decoder of an entry one of a reply.
func parses[T any](parse func(*attributes, *T)) func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		var v T
		a := attributes{rest: b}
		parse(&a, &v)
		return v, a.err
	}
}

func TestGoldenObjects(t *testing.T) {
	for _, g := range allGoldens {
		for what, attrs := range map[string]string{
			"plain": g.attrs, "unknown ones around": attr(4000, "?") + g.attrs + attr(0x8000|4001, attr(21, "")), "padding": attr(0, "") + g.attrs,
		} {
			got, err := g.parse([]byte(attrs))
			if diff := cmp.Diff(g.want, got, sameAddr); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", g.name, what, err, diff)
			}
		}
	}
}

// each calls f for every attribute of a list, with where it begins and ends.
func each(attrs string, f func(begin, end int)) {
	for at := 0; at < len(attrs); {
		n := int(binary.NativeEndian.Uint16([]byte(attrs[at:])))
		f(at, at+(n+3)&^3)
		at += (n + 3) &^ 3
	}
}

func TestObjectsCutShort(t *testing.T) {
	for _, g := range allGoldens {
		for n := range len(g.attrs) {
			if got, err := g.parse([]byte(g.attrs[:n])); err == nil && cmp.Equal(got, g.want, sameAddr) && n < len(g.attrs)-3 {
				t.Errorf("%s: the first %d bytes are taken for all of it", g.name, n)
			}
		}
		each(g.attrs, func(begin, end int) {
			if binary.NativeEndian.Uint16([]byte(g.attrs[begin+2:])) == g.needs {
				if _, err := g.parse([]byte(g.attrs[:begin] + g.attrs[end:])); !errors.Is(err, ErrMalformed) {
					t.Errorf("%s without attribute %s: %v", g.name, attrName(g.needs), err)
				}
			}
		})
	}
}

// TestObjectsWithWrongSizes gives every number one byte too many.
func TestObjectsWithWrongSizes(t *testing.T) {
	words := map[uint16]bool{2: true, 5: true, 51: true, 67: true, 70: true, 100: true, 29: true, 33: true, 34: true, 98: true, 85: true, 0: true}
	for _, g := range allGoldens {
		each(g.attrs, func(begin, end int) {
			head := []byte(g.attrs[begin:])
			n, typ := binary.NativeEndian.Uint16(head), binary.NativeEndian.Uint16(head[2:])
			if words[typ] || typ == 0x8000|19 && n == 4 {
				return
			}
			bad := g.attrs[:begin] + attr(typ, string(head[4:n])+"\x00") + g.attrs[end:]
			if _, err := g.parse([]byte(bad)); !errors.Is(err, ErrMalformed) || !strings.Contains(fmt.Sprint(err), attrName(typ&attrTypeMask)) {
				t.Errorf("%s, attribute %s of %d bytes: %v", g.name, attrName(typ&attrTypeMask), n-3, err)
			}
		})
	}
}

func TestMalformedObjects(t *testing.T) {
	srq := attr(90, u32(0)) + attr(26, "\x00")
	for _, test := range []struct {
		what  string
		parse func([]byte) (any, error)
		attrs string
		want  string
	}{
		{"address of no family", parses(parseCMID), attr(33, "\x02"), "RES_SRC_ADDR has 1 bytes, want 128"},
		{"IPv4 cut short", parses(parseCMID), attr(33, inet[:7]), "RES_SRC_ADDR has 7 bytes"},
		{"IPv6 cut short", parses(parseCMID), attr(34, inet6[:20]), "RES_DST_ADDR has 20 bytes"},
		{"InfiniBand cut short", parses(parseCMID), attr(34, ib[:24]), "RES_DST_ADDR has 24 bytes"},
		{"range without end", parses(parseSRQ), srq + attr(19, attr(20, attr(91, u32(1)))), "in RES_QP: in RES_QP_ENTRY: malformed netlink reply: no attribute MAX_RANGE"},
		{"range without begin", parses(parseSRQ), srq + attr(19, attr(20, attr(92, u32(1)))), "no attribute RES_LQPN"},
		{"driver's name without value", parses(parseContext), attr(64, u32(0)) + attr(52, attr(54, "a\x00")), "in DRIVER: malformed netlink reply: no attribute DRIVER_ENTRY"},
		{"driver's number too short", parses(parseContext), attr(64, u32(0)) + attr(52, attr(54, "a\x00")+attr(59, u32(1))), "DRIVER_U64 has 4 bytes, want 8"},
	} {
		if _, err := test.parse([]byte(test.attrs)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		}
	}
}

func TestMalformedDump(t *testing.T) {
	head := attr(1, u32(7)) + attr(2, "siw0\x00")
	ok := attr(20, goldens[1].attrs)
	for what, test := range map[string]struct {
		reply string
		given int
		want  string
	}{
		"an entry cut short":   {head + attr(19, ok+attr(20, goldens[1].attrs[:6])), 1, "list the QPs of RDMA device 7: in RES_QP: in RES_QP_ENTRY: malformed"},
		"stray bytes in table": {head + attr(19, ok+"abc")[:len(ok)+7], 1, "malformed netlink reply"},
		"an empty entry":       {head + attr(19, attr(20, "")+ok), 1, ""},
		"no table":             {head, 0, ""},
		"another table":        {head + attr(35, ok), 0, ""},
	} {
		given, text := 0, ""
		for _, err := range (&Client{Kernel: one(test.reply)}).DumpQP(7, nil) {
			if err != nil {
				text = err.Error()
				continue
			}
			given++
		}
		if given != test.given || !strings.Contains(text, test.want) || (text == "") != (test.want == "") {
			t.Errorf("%s: %d QPs and %q, want %+v", what, given, text, test)
		}
	}
}

func TestObjectNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{verbs.QPType(2).String(), "RC"}, {verbs.QPType(7).String(), "QPType(7)"}, {verbs.QPTypeDriver.String(), "DRIVER"},
		{verbs.QPState(6).String(), "ERR"}, {verbs.QPState(7).String(), "QPState(7)"},
		{verbs.PathMigState(2).String(), "ARMED"}, {verbs.PathMigState(3).String(), "PathMigState(3)"},
		{PollContext(2).String(), "UNBOUND_WORKQUEUE"}, {PollDirect.String(), "DIRECT"}, {PollContext(4).String(), "PollContext(4)"},
		{SRQType(2).String(), "TM"}, {SRQType(3).String(), "SRQType(3)"},
		{CMState(10).String(), "DESTROYING"}, {CMState(12).String(), "ADDRINFO_RESOLVED"}, {CMState(13).String(), "CMState(13)"},
		{verbs.PortSpace(2).String(), "IPoIB"}, {verbs.PortSpace(0x13f).String(), "IB"}, {verbs.PortSpace(0x106).String(), "TCP"},
		{verbs.PortSpace(0x111).String(), "UDP"}, {verbs.PortSpace(27).String(), "PortSpace(27)"},
		{QPRange{17, 17}.String(), "17"}, {QPRange{17, 20}.String(), "17-20"},
		{at("10.1.1.1:7174").String(), "10.1.1.1:7174"}, {at("[fd01::2]:1").String(), "fd01::2:1"},
		{CMAddr{}.String(), ""}, {CMAddr{Family: 17}.String(), "Family(17)"},
		{driverAttrs[0].String(), "text"}, {driverAttrs[1].String(), "-5"}, {driverAttrs[2].String(), "0xffffffff"},
		{driverAttrs[3].String(), "-9223372036854775808"}, {driverAttrs[4].String(), "9223372036854775808"},
		{DriverAttr{Kind: DriverS32, Hex: true, Number: ^uint64(4)}.String(), "0xfffffffb"},
		{DriverAttr{Kind: DriverS64, Hex: true, Number: ^uint64(4)}.String(), "0xfffffffffffffffb"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}
