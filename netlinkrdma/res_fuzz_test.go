package netlinkrdma

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
)

func FuzzQP(f *testing.F)      { fuzzObject(f, parseQP) }
func FuzzCMID(f *testing.F)    { fuzzObject(f, parseCMID) }
func FuzzCQ(f *testing.F)      { fuzzObject(f, parseCQ) }
func FuzzMR(f *testing.F)      { fuzzObject(f, parseMR) }
func FuzzPD(f *testing.F)      { fuzzObject(f, parsePD) }
func FuzzContext(f *testing.F) { fuzzObject(f, parseContext) }
func FuzzSRQ(f *testing.F)     { fuzzObject(f, parseSRQ) }
func FuzzRaw(f *testing.F)     { fuzzObject(f, parseRaw) }

// FuzzDriver reads any bytes as the driver's own attributes.
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

// fuzzObject lets a decoder read any bytes: it may not panic, and what it
// accepts it must accept again with unknown attributes around it.
func fuzzObject[T any](f *testing.F, parse func(*attributes, *T)) {
	for _, g := range goldens {
		f.Add([]byte(g.attrs))
		f.Add([]byte(g.attrs)[:len(g.attrs)/2])
	}
	decode := parses(parse)
	f.Fuzz(func(t *testing.T, attrs []byte) {
		around := attr(4000, "?")
		again := []byte(around + string(attrs))
		if len(attrs)%4 == 0 {
			again = append(again, around...)
		}
		check(t, decode, attrs, again)
	})
}

// FuzzDump reads any bytes as a reply of a dump.
func FuzzDump(f *testing.F) {
	for _, r := range recordedDumps {
		f.Add([]byte(r.reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		given, failed := 0, false
		for q, err := range (&Client{Kernel: one(reply)}).DumpQP(0, nil) {
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
		first, err := collect((&Client{Kernel: one(r)}).DumpQP(0, nil))
		second, err2 := collect((&Client{Kernel: one(attr(4000, "?") + string(r))}).DumpQP(0, nil))
		if diff := cmp.Diff(first, second); diff != "" || (err == nil) != (err2 == nil) {
			t.Fatal(err, err2, diff)
		}
	})
}
