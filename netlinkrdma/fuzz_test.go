package netlinkrdma

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
)

func FuzzQP(f *testing.F)         { fuzzObject(f, parseQP) }
func FuzzCMID(f *testing.F)       { fuzzObject(f, parseCMID) }
func FuzzCQ(f *testing.F)         { fuzzObject(f, parseCQ) }
func FuzzMR(f *testing.F)         { fuzzObject(f, parseMR) }
func FuzzPD(f *testing.F)         { fuzzObject(f, parsePD) }
func FuzzContext(f *testing.F)    { fuzzObject(f, parseContext) }
func FuzzSRQ(f *testing.F)        { fuzzObject(f, parseSRQ) }
func FuzzRaw(f *testing.F)        { fuzzObject(f, parseRaw) }
func FuzzFRMRPool(f *testing.F)   { fuzzObject(f, parseFRMRPool) }
func FuzzQPCounter(f *testing.F)  { fuzzObject(f, parseQPCounter) }
func FuzzMRCounters(f *testing.F) { fuzzObject(f, parseMRCounters) }

func FuzzDevice(f *testing.F)         { fuzzReply(f, parseDevice) }
func FuzzPort(f *testing.F)           { fuzzReply(f, parsePort) }
func FuzzCharDev(f *testing.F)        { fuzzReply(f, parseCharDev) }
func FuzzResources(f *testing.F)      { fuzzReply(f, parseResources) }
func FuzzSystem(f *testing.F)         { fuzzReply(f, parseSystem) }
func FuzzPortCounters(f *testing.F)   { fuzzReply(f, parsePortCounters) }
func FuzzCounterSetting(f *testing.F) { fuzzReply(f, parseCounterSetting) }
func FuzzCounterID(f *testing.F)      { fuzzReply(f, parseCounterID) }
func FuzzCounterStatus(f *testing.F)  { fuzzReply(f, parseCounterStatus) }
func FuzzEvent(f *testing.F)          { fuzzReply(f, parseEvent) }

// FuzzNotification parses any bytes as a datagram of notifications. All of it must be read,
// and nothing outside.
func FuzzNotification(f *testing.F) {
	event := attr(102, "\x00")
	f.Add([]byte(msgOf(0, notification, 0, event) + msgOf(0, notification, 0, event)))
	f.Add([]byte(msgOf(0, reply, 0, event) + msgOf(0, notification, 0, "")))
	f.Add([]byte(msgOf(0, notification, 0, event)[:18]))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		sum := 0
		for left := datagram; ; {
			body, rest, err := nextNotification(left)
			if err != nil && !errors.Is(err, ErrMalformed) || err != nil && len(rest) > 0 {
				t.Fatal(err, len(rest))
			}
			if sum += len(body); len(body) > 0 && len(rest) >= len(left) || sum > len(datagram) {
				t.Fatalf("%d bytes out of %d", sum, len(datagram))
			}
			if left = rest; len(left) == 0 {
				return
			}
		}
	})
}

// FuzzDriver parses any bytes as driver-specific attributes.
func FuzzDriver(f *testing.F) {
	f.Add([]byte(driverTable)[attrHeader:])
	f.Fuzz(func(t *testing.T, table []byte) {
		a := attributes{typ: abi.RDMA_NLDEV_ATTR_DRIVER, value: table}
		all := parseDriver(&a)
		if a.err != nil && !errors.Is(a.err, ErrMalformed) || len(all) > len(table)/(2*attrHeader) {
			t.Fatalf("%d attributes in %d bytes, %v", len(all), len(table), a.err)
		}
		for _, d := range all {
			if d.String() == "" && d.Kind != DriverString {
				t.Fatalf("%+v prints nothing", d)
			}
		}
	})
}

// fuzzObject passes any bytes to a decoder. It must not panic, and must accept the same
// bytes with unknown attributes around them.
func fuzzObject[T any](f *testing.F, parse func(*attributes, *T)) {
	fuzzReply(f, parses(parse))
}

func fuzzReply[T any](f *testing.F, decode func([]byte) (T, error)) {
	for _, g := range allGoldens {
		f.Add([]byte(g.attrs))
		f.Add([]byte(g.attrs)[:len(g.attrs)/2])
	}
	f.Fuzz(func(t *testing.T, attrs []byte) {
		around := attr(4000, "?")
		again := []byte(around + string(attrs))
		if len(attrs)%4 == 0 {
			again = append(again, around...)
		}
		check(t, decode, attrs, again)
	})
}

// FuzzDump parses any bytes as a reply to a dump.
func FuzzDump(f *testing.F) {
	for _, r := range recordedDumps {
		f.Add([]byte(r.reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		given, failed := 0, false
		for q, err := range (&Client{Kernel: one(reply)}).QPs(0, nil) {
			if failed {
				t.Fatalf("%v after an error", q)
			}
			if failed = err != nil; failed && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			given++
		}
		if given > len(reply)/attrHeader+1 {
			t.Fatalf("%d QPs in %d bytes", given, len(reply))
		}
		r := reply[:len(reply)&^3]
		first, err := collect((&Client{Kernel: one(r)}).QPs(0, nil))
		second, err2 := collect((&Client{Kernel: one(attr(4000, "?") + string(r))}).QPs(0, nil))
		if diff := cmp.Diff(first, second); diff != "" || (err == nil) != (err2 == nil) {
			t.Fatal(err, err2, diff)
		}
	})
}
