package netlinkrdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func u16be(v uint16) string { return string(binary.BigEndian.AppendUint16(nil, v)) }
func u16(v uint16) string   { return string(binary.NativeEndian.AppendUint16(nil, v)) }

// storage pads a sockaddr to the size of sockaddr_storage.
func storage(s string) string { return s + zeros(sockaddrStorage-len(s)) }

var (
	inet    = storage(u16(afINET) + u16be(7174) + "\x0a\x01\x01\x01")
	inet6   = storage(u16(afINET6) + u16be(65535) + zeros(4) + "\xfd\x01" + zeros(13) + "\x02")
	ib      = storage(u16(afIB) + u16be(0xffff) + zeros(4) + "\xfe\x80" + zeros(13) + "\x01" + "\x00\x00\x00\x00\x01\x3f\x1c\x06" + strings.Repeat("\xff", 8))
	strange = storage(u16(17) + "hello")
)

// driverTable has an attribute of each type, one with a print type, one of an unknown type,
// and padding.
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

// goldens have every attribute of every kind of object, by the numbers of the kernel's header,
// and unknown attributes.
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

// parses turns the decoder of an entry into one of a reply.
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

// each calls f with the start and the end of every attribute of a list.
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

// TestObjectsWithWrongSizes makes every number one byte too long.
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
		for _, err := range (&Client{Kernel: one(test.reply)}).QPs(7, nil) {
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

// replyGoldens are the goldens of other replies.
var replyGoldens = []golden{
	{"character device", whole(parseCharDev), attr(73, u32(18)) + attr(0, "") + attr(72, u64(0x100a04)) + attr(71, u64(4)) + attr(70, "rdma_cm\x00"),
		CharDev{Name: "rdma_cm", ABI: 4, Major: 10, Minor: 260, DriverID: 18}, 72},
	{"resources", whole(parseResources),
		attr(15,
			attr(16, attr(17, "qp\x00")+attr(0, "")+attr(18, u64(1<<40))+attr(118, u64(1<<41)))+attr(4000, "?")+attr(nestedFlag|16, attr(18, u64(0))+attr(17, "novel\x00"))),
		[]Resource{{"qp", 1 << 40, 1 << 41}, {"novel", 0, 0}}, 0},
}

// whole returns the decoder of replies that hold one value.
func whole[T any](parse func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return parse(b) }
}

const nestedFlag = 0x8000

func counterEntry(in string) string { return attr(nestedFlag|81, in) }

var (
	allGoldens = slices.Concat(goldens, moreGoldens, frmrGoldens, replyGoldens)

	counters = attr(nestedFlag|80,
		counterEntry(attr(82, "rx_write_requests\x00")+attr(0, "")+attr(83, u64(1<<63)))+attr(4000, "?")+
			counterEntry(attr(83, u64(0))+attr(82, "out_of_buffer\x00")+attr(nestedFlag|4001, "?")))
	counterList = []Counter{{"rx_write_requests", 1 << 63}, {"out_of_buffer", 0}}
)

// moreGoldens have every attribute of the replies that hold no objects, by the numbers of the
// kernel's header.
var moreGoldens = []golden{
	{"device", whole(parseDevice),
		attr(1, u32(2)) + attr(2, "mlx5_0\x00") + attr(3, u32(2)) + attr(0, "") + attr(4, u64(1<<40)) + attr(5, "16.35.4030\x00") +
			attr(6, u64(0x506b4b0300fbe1a2)) + attr(7, u64(1)) + attr(14, "\x01") + attr(84, "\x01") + attr(99, "\x01") + attr(100, "mlx5_1\x00") +
			attr(101, "\x02") + attr(67, "ib\x00"),
		Device{
			Index: 2, Name: "mlx5_0", Ports: 2, CapFlags: 1 << 40, FWVersion: "16.35.4030", NodeGUID: 0x506b4b0300fbe1a2, SysImageGUID: 1, NodeType: verbs.NodeCA, Protocol: "ib",
			AdaptiveModeration: known(true), Type: DeviceSMI, Parent: "mlx5_1", NameAssign: known(NameAssignType(2)),
		}, 1},
	{"device with strange moderation", whole(parseDevice), attr(84, "\x02") + attr(1, u32(2)) + attr(2, "siw0\x00"), Device{Index: 2, Name: "siw0"}, 2},
	{"InfiniBand port", whole(parsePort),
		attr(1, u32(2)) + attr(2, "mlx5_0\x00") + attr(3, u32(1)) + attr(4, u64(1<<33)) + attr(8, u64(0xfe80<<48)) + attr(9, u32(13)) + attr(10, u32(1)) +
			attr(11, "\x02") + attr(12, "\x04") + attr(13, "\x05") + attr(50, u32(7)) + attr(51, "ib0\x00"),
		Port{
			DeviceIndex: 2, DeviceName: "mlx5_0", Index: 1, State: verbs.PortActive, PhysState: verbs.PhysLinkUp, NetdevIndex: 7, NetdevName: "ib0",
			InfiniBand: true, CapFlags: 1 << 33, SubnetPrefix: 0xfe80 << 48, LID: 13, SMLID: 1, LMC: 2,
		}, 3},
	{"system", whole(parseSystem), attr(66, "\x01") + attr(96, "\x00") + attr(103, "\x01") + attr(93, "\x01"),
		System{NetnsMode: NetnsShared, CopyOnFork: true, PrivilegedQKey: known(false), Monitor: true}, 66},
	{"system of old", whole(parseSystem), attr(66, "\x00"), System{NetnsMode: NetnsExclusive}, 66},
	{"port counters", whole(parsePortCounters), counters, counterList, nestedFlag | 80},
	{"QP counter", parses(parseQPCounter),
		attr(3, u32(2)) + attr(79, u32(9)) + attr(74, u32(1)) + attr(26, "\x02") + process +
			attr(nestedFlag|19, attr(nestedFlag|20, attr(21, u32(17)))+attr(nestedFlag|20, attr(21, u32(1<<23)))) + counters,
		QPCounter{
			Owner: Owner{TID: 4711}, ID: 9, Port: 2, Mode: CountersAuto, QPType: known(verbs.QPType(2)),
			LQPN: []QPRange{{17, 17}, {1 << 23, 1 << 23}}, Counters: counterList,
		}, 79},
	{"QP counter of no QP", parses(parseQPCounter), attr(nestedFlag|19, "") + attr(79, u32(0)) + attr(74, u32(2)), QPCounter{Mode: CountersManual}, 74},
	{"MR counters", parses(parseMRCounters), attr(62, u32(3)) + counters, MRCounters{MRN: 3, Counters: counterList}, 62},
	{"counter mode", whole(parseCounterSetting), attr(74, u32(1)) + attr(76, u32(7)), CounterSetting{Mode: CountersAuto, By: 7}, 74},
	{"counter mode of 7.2", whole(parseCounterSetting), attr(74, u32(1)) + attr(76, u32(2)) + attr(104, "\x01"), CounterSetting{CountersAuto, CountByPID, known(true)}, 74},
	{"counter's number", whole(parseCounterID), attr(79, u32(1<<31)), CounterID(1 << 31), 79},
	{"counter status", whole(parseCounterStatus),
		attr(nestedFlag|80,
			counterEntry(attr(82, "a\x00")+attr(94, u32(0)))+
				counterEntry(attr(82, "b\x00")+attr(94, u32(1))+attr(95, "\x00"))+
				counterEntry(attr(82, "c\x00")+attr(94, u32(2))+attr(95, "\x01"))),
		[]CounterStatus{{"a", 0, false, true}, {"b", 1, true, false}, {"c", 2, true, true}}, nestedFlag | 80},
	{"event", whole(parseEvent), attr(1, u32(2)) + attr(2, "rxe0\x00") + attr(3, u32(1)) + attr(50, u32(7)) + attr(51, "eth0\x00") + attr(102, "\x02"),
		Event{Type: EventNetdevAttach, DeviceIndex: 2, DeviceName: "rxe0", Port: 1, NetdevIndex: 7, NetdevName: "eth0"}, 102},
	{"strange event", whole(parseEvent), attr(102, "\xff"), Event{Type: 255}, 102},
}

func TestMalformedCounters(t *testing.T) {
	table := func(in string) string { return attr(nestedFlag|80, counterEntry(in)) }
	for _, test := range []struct {
		what  string
		parse func([]byte) (any, error)
		attrs string
		want  string
	}{
		{"no value", whole(parsePortCounters), table(attr(82, "a\x00")), "in STAT_HWCOUNTERS: in STAT_HWCOUNTER_ENTRY: malformed netlink reply: no attribute STAT_HWCOUNTER_ENTRY_VALUE"},
		{"no name", whole(parsePortCounters), table(attr(83, u64(1))), "no attribute STAT_HWCOUNTER_ENTRY_NAME"},
		{"value of 4 bytes", parses(parseMRCounters), attr(62, u32(1)) + table(attr(82, "a\x00")+attr(83, u32(1))), "STAT_HWCOUNTER_ENTRY_VALUE has 4 bytes, want 8"},
		{"no index", whole(parseCounterStatus), table(attr(82, "a\x00")), "no attribute STAT_HWCOUNTER_INDEX"},
		{"no name of a status", whole(parseCounterStatus), table(attr(94, u32(1))), "no attribute STAT_HWCOUNTER_ENTRY_NAME"},
		{"whether it is on in 4 bytes", whole(parseCounterStatus), table(attr(82, "a\x00") + attr(94, u32(1)) + attr(95, u32(1))), "STAT_HWCOUNTER_DYNAMIC has 4 bytes, want 1"},
		{"QP of a counter without number", parses(parseQPCounter), attr(79, u32(0)) + attr(74, u32(2)) + attr(19, attr(20, "")), "no attribute RES_LQPN"},
	} {
		if _, err := test.parse([]byte(test.attrs)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		}
	}
}

func TestStatNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{DeviceOrdinary.String(), ""}, {DeviceSMI.String(), "smi"}, {DeviceType(27).String(), "DeviceType(27)"},
		{NameAssignType(0).String(), "UNKNOWN"}, {NameAssignType(1).String(), "USER"}, {NameAssignType(27).String(), "NameAssignType(27)"},
		{NetnsExclusive.String(), "exclusive"}, {NetnsShared.String(), "shared"}, {NetnsMode(27).String(), "NetnsMode(27)"},
		{CountersNone.String(), "none"}, {CountersManual.String(), "manual"}, {CounterMode(3).String(), "CounterMode(3)"},
		{CounterMode(1 << 31).String(), "CounterMode(2147483648)"},
		{CounterMask(0).String(), ""}, {CountByPID.String(), "pid"}, {(CountByType | CountByPID).String(), "type,pid"},
		{CounterMask(0x15).String(), "type,CounterMask(0x14)"},
		{EventRegister.String(), "REGISTER"}, {EventNetdevRename.String(), "NETDEV_RENAME"}, {EventType(27).String(), "EventType(27)"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

const notification = nldevType | 28

func TestNotifications(t *testing.T) {
	datagram := []byte(msgOf(0, reply, 0, "abcd") + msgOf(0, notification, 0, "one1") + msgOf(0, messageDone, 0, "") + msgOf(7, notification, 0, "two2"))
	var got []string
	for {
		body, rest, err := nextNotification(datagram)
		if err != nil {
			t.Fatal(err)
		}
		if body == nil {
			break
		}
		got, datagram = append(got, string(body)), rest
	}
	if !slices.Equal(got, []string{"one1", "two2"}) {
		t.Error(got)
	}
	if _, rest, err := nextNotification([]byte(msgOf(0, notification, 0, "one1")[:19])); !errors.Is(err, ErrMalformed) || rest != nil {
		t.Error(err, rest)
	}
}

var frmrGoldens = []golden{
	{"FRMR pool", parses(parseFRMRPool),
		attr(nestedFlag|107, attr(108, "\x01")+attr(109, u32(0xf))+attr(0, "")+attr(110, u64(1<<63))+attr(0, "")+attr(111, u64(1<<12))+attr(117, u64(5))) +
			attr(112, u32(1<<31)) + attr(113, u64(1<<40)) + attr(0, "") + attr(114, u64(1<<39)) + attr(116, u32(7)),
		FRMRPool{
			Key: FRMRPoolKey{VendorKey: 1 << 63, DMABlocks: 1 << 12, AccessFlags: 0xf, ATS: true}, KernelVendorKey: 5,
			Queued: 1 << 31, MaxInUse: 1 << 40, InUse: 1 << 39, Pinned: 7,
		}, nestedFlag | 107},
	{"FRMR pool with strange ones in its key", parses(parseFRMRPool),
		attr(nestedFlag|107, attr(108, "\x00")+attr(4000, "?")+attr(109, u32(0))) + attr(112, u32(0)) + attr(113, u64(0)) + attr(114, u64(0)) + attr(116, u32(0)),
		FRMRPool{}, 116},
}

func TestMalformedFRMRPools(t *testing.T) {
	rest := attr(112, u32(0)) + attr(113, u64(0)) + attr(114, u64(0)) + attr(116, u32(0))
	for want, attrs := range map[string]string{
		"in FRMR_POOL_KEY: malformed netlink reply: attribute FRMR_POOL_KEY_ATS has 4 bytes, want 1": attr(107, attr(108, u32(1))) + rest,
		"FRMR_POOL_KEY_VENDOR_KEY has 4 bytes, want 8":                                               attr(107, attr(110, u32(1))) + rest,
		"no attribute FRMR_POOL_KEY":                                                                 rest,
		"no attribute FRMR_POOL_QUEUE_HANDLES":                                                       attr(107, "") + rest[8:],
	} {
		if _, err := parses(parseFRMRPool)([]byte(attrs)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFRMRPoolKey(t *testing.T) {
	for text, want := range map[string]FRMRPoolKey{
		"0:0:0:0":                    {},
		"0:1000:0:1":                 {DMABlocks: 0x1000, ATS: true},
		"0xF:0x1:ffffffff:00":        {VendorKey: 15, DMABlocks: 1, AccessFlags: 1<<32 - 1},
		"ffffffffffffffff:1:2:1:0:0": {VendorKey: 1<<64 - 1, DMABlocks: 1, AccessFlags: 2, ATS: true},
	} {
		got, err := ParseFRMRPoolKey(text)
		if again, err2 := ParseFRMRPoolKey(got.String()); err != nil || err2 != nil || got != want || again != want {
			t.Errorf("%s: %+v, %v, %+v, %v", text, got, err, again, err2)
		}
	}
	for text, want := range map[string]string{
		"":                        "want four fields, VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS",
		"0:0:0":                   "want four fields",
		"0:0:0:":                  `"" is not a hexadecimal number`,
		"x:0:0:0":                 `"x" is not a hexadecimal number`,
		"-1:0:0:0":                `"-1" is not a hexadecimal number`,
		"10000000000000000:0:0:0": `"10000000000000000" is not a hexadecimal number of 64 bits`,
		"0:0:100000000:0":         `"100000000" has more than 32 bits`,
		"0:0:0:2":                 `"2" has more than 1 bits`,
		"0:0:0:0:1":               `"1" has more than 0 bits`,
	} {
		if _, err := ParseFRMRPoolKey(text); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzFRMRPoolKey checks that an accepted key has the same text again.
func FuzzFRMRPoolKey(f *testing.F) {
	f.Add("0:1000:f:1")
	f.Add("0xffffffffffffffff:0:ffffffff:0:0")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseFRMRPoolKey(text)
		if err != nil {
			return
		}
		if again, err := ParseFRMRPoolKey(k.String()); err != nil || again != k {
			t.Fatalf("%q: %+v, then %+v, %v", text, k, again, err)
		}
	})
}

// DecodedAttributes returns the attributes whose absence changes the result of a decoder for
// some golden, and the tables that enclose the objects of a dump.
func DecodedAttributes() map[uint16]bool {
	decoded := make(map[uint16]bool)
	for _, g := range allGoldens {
		withoutEach(g.attrs, func(typ uint16, rest string) {
			if got, err := g.parse([]byte(rest)); err != nil || !cmp.Equal(got, g.want, sameAddr) {
				decoded[typ] = true
			}
		})
	}
	tables := [][]uint16{
		{qpResource.table, qpResource.entry}, {cmIDResource.table, cmIDResource.entry}, {cqResource.table, cqResource.entry},
		{mrResource.table, mrResource.entry}, {pdResource.table, pdResource.entry}, {contextResource.table, contextResource.entry},
		{srqResource.table, srqResource.entry}, {frmrPoolResource.table, frmrPoolResource.entry}, {qpCounterResource.table, qpCounterResource.entry},
	}
	for _, typ := range slices.Concat(tables...) {
		decoded[typ] = true
	}
	return decoded
}

// nestedTypes are attributes of the goldens that hold others.
var nestedTypes = []uint16{15, 16, 19, 20, 52, 80, 81, 107}

// withoutEach calls f with every attribute of a list, also those inside others, and with the
// list without that attribute.
func withoutEach(attrs string, f func(typ uint16, rest string)) {
	each(attrs, func(begin, end int) {
		head := []byte(attrs[begin:end])
		n, flagged := binary.NativeEndian.Uint16(head), binary.NativeEndian.Uint16(head[2:])
		f(flagged&attrTypeMask, attrs[:begin]+attrs[end:])
		if slices.Contains(nestedTypes, flagged&attrTypeMask) {
			withoutEach(string(head[attrHeader:n]), func(typ uint16, rest string) {
				f(typ, attrs[:begin]+attr(flagged, rest)+attrs[end:])
			})
		}
	})
}
