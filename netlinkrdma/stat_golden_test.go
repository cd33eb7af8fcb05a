package netlinkrdma

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// whole is the decoder of replies that are one thing.
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

// moreGoldens hold every attribute of what is no object, by the numbers of the
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
	{"counter's number", whole(parseCounterID), attr(79, u32(1<<31)), uint32(1 << 31), 79},
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
