package qpstate

import (
	"testing"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// The attributes of a transition, each a letter, as the kernel's qp_state_table
// has them (drivers/infiniband/core/verbs.c).
var letters = map[rune]driver.QPAttrMask{
	'c': 1 << 1, 'n': 1 << 2, 'a': 1 << 3, 'k': 1 << 4, 'p': 1 << 5, 'q': 1 << 6, 'v': 1 << 7, 'm': 1 << 8, 't': 1 << 9,
	'r': 1 << 10, 'R': 1 << 11, 'e': 1 << 12, 'i': 1 << 13, 'l': 1 << 14, 'w': 1 << 15, 's': 1 << 16, 'd': 1 << 17,
	'g': 1 << 18, 'D': 1 << 20,
}

func mask(s string) (m driver.QPAttrMask) {
	for _, l := range s {
		m |= letters[l]
	}
	return m
}

// legal lists from, to, then required and optional attributes of RC, UC, UD, XRC initiators and
// XRC targets. "-" is a transition that the type has not.
var legal = []struct {
	from, to driver.QPState
	types    [5][2]string
}{
	{driver.QPStateReset, driver.QPStateInit, [5][2]string{{"kpa", ""}, {"kpa", ""}, {"kpq", ""}, {"kpa", ""}, {"kpa", ""}}},
	{driver.QPStateInit, driver.QPStateInit, [5][2]string{{"", "kpa"}, {"", "kpa"}, {"", "kpq"}, {"", "kpa"}, {"", "kpa"}}},
	{driver.QPStateInit, driver.QPStateRTR, [5][2]string{{"vmDedw", "lak"}, {"vmDe", "lak"}, {"", "kq"}, {"vmDe", "lak"}, {"vmDedw", "lak"}}},
	{driver.QPStateRTR, driver.QPStateRTS, [5][2]string{{"trRsi", "clawg"}, {"s", "clag"}, {"s", "cq"}, {"trRsi", "clag"}, {"ts", "clawg"}}},
	{driver.QPStateRTS, driver.QPStateRTS, [5][2]string{{"", "calgw"}, {"", "calg"}, {"", "cq"}, {"", "calg"}, {"", "calgw"}}},
	{driver.QPStateRTS, driver.QPStateSQD, [5][2]string{{"", "n"}, {"", "n"}, {"", "n"}, {"", "n"}, {"", "n"}}},
	{driver.QPStateSQD, driver.QPStateRTS, [5][2]string{{"", "clawg"}, {"", "clag"}, {"", "cq"}, {"", "clag"}, {"", "clawg"}}},
	{driver.QPStateSQD, driver.QPStateSQD, [5][2]string{{"", "pvtrRidlakwg"}, {"", "vlakg"}, {"", "kq"}, {"", "pvtrRilakg"}, {"", "pvtdlakwg"}}},
	{driver.QPStateSQE, driver.QPStateRTS, [5][2]string{{"-", ""}, {"", "ca"}, {"", "cq"}, {"-", ""}, {"-", ""}}},
}

// TestTransitions compares every pair of states and every attribute of them.
func TestTransitions(t *testing.T) {
	for typ, column := range map[driver.QPType]int{driver.QPTypeRC: 0, driver.QPTypeUC: 1, driver.QPTypeUD: 2, driver.QPTypeXRCInitiator: 3, driver.QPTypeXRCTarget: 4} {
		want := make(map[transition]rule)
		for _, l := range legal {
			if c := l.types[column]; c[0] != "-" {
				want[transition{l.from, l.to}] = rule{mask(c[0]), mask(c[1])}
			}
		}
		for from := driver.QPStateReset; from <= driver.QPStateErr; from++ {
			for to := driver.QPStateReset; to <= driver.QPStateErr; to++ {
				r, ok := want[transition{from, to}]
				anyway := to == driver.QPStateReset || to == driver.QPStateErr && from != driver.QPStateReset
				if got := Explain(typ, from, to, driver.QPAttrState|r.required); (got == "") != (ok || anyway) {
					t.Errorf("%v %v to %v: %q", typ, from, to, got)
				}
				if !ok || anyway {
					continue
				}
				for bit := driver.QPAttrMask(2); bit <= driver.QPAttrDestQPN; bit <<= 1 {
					with := Explain(typ, from, to, driver.QPAttrState|r.required|bit)
					if allowed := bit&(r.required|r.optional) != 0; (with == "") != allowed {
						t.Errorf("%v %v to %v with %v: %q", typ, from, to, bit, with)
					}
					without := Explain(typ, from, to, driver.QPAttrState|r.required&^bit)
					if needed := bit&r.required != 0; (without != "") != needed {
						t.Errorf("%v %v to %v without %v: %q", typ, from, to, bit, without)
					}
				}
			}
		}
	}
}

func TestExplanations(t *testing.T) {
	for _, c := range []struct {
		typ      driver.QPType
		from, to driver.QPState
		mask     driver.QPAttrMask
		want     string
	}{
		{driver.QPTypeRC, driver.QPStateReset, driver.QPStateRTS, 0, "no RC QP goes from RESET to RTS; from RESET the next is INIT"},
		{driver.QPTypeRC, driver.QPStateErr, driver.QPStateInit, 0, "no RC QP goes from ERR to INIT"},
		{driver.QPTypeUD, driver.QPStateReset, driver.QPStateInit, driver.QPAttrPort, "RESET to INIT of a UD QP also needs PKeyIndex|QKey"},
		{driver.QPTypeUC, driver.QPStateRTR, driver.QPStateRTS, driver.QPAttrSQPSN | driver.QPAttrTimeout, "RTR to RTS of a UC QP can't take Timeout"},
		{driver.QPType(255), driver.QPStateReset, driver.QPStateRTS, 0, ""},
		{driver.QPTypeRC, driver.QPState(9), driver.QPStateRTS, 0, "no RC QP goes from QPState(9) to RTS"},
	} {
		if got := Explain(c.typ, c.from, c.to, driver.QPAttrState|c.mask); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
