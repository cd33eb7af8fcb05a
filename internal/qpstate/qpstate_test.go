package qpstate

import (
	"slices"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// A letter for each attribute of a transition in the kernel's qp_state_table
// (drivers/infiniband/core/verbs.c).
var letters = map[rune]verbs.QPAttrMask{
	'c': 1 << 1, 'n': 1 << 2, 'a': 1 << 3, 'k': 1 << 4, 'p': 1 << 5, 'q': 1 << 6, 'v': 1 << 7, 'm': 1 << 8, 't': 1 << 9,
	'r': 1 << 10, 'R': 1 << 11, 'e': 1 << 12, 'i': 1 << 13, 'l': 1 << 14, 'w': 1 << 15, 's': 1 << 16, 'd': 1 << 17,
	'g': 1 << 18, 'D': 1 << 20,
}

func mask(s string) (m verbs.QPAttrMask) {
	for _, l := range s {
		m |= letters[l]
	}
	return m
}

// legal lists from, to, then required and optional attributes of RC, UC, UD, XRC initiators and
// XRC targets. "-" is a transition that the type does not have.
var legal = []struct {
	from, to verbs.QPState
	types    [5][2]string
}{
	{verbs.QPStateReset, verbs.QPStateInit, [5][2]string{{"kpa", ""}, {"kpa", ""}, {"kpq", ""}, {"kpa", ""}, {"kpa", ""}}},
	{verbs.QPStateInit, verbs.QPStateInit, [5][2]string{{"", "kpa"}, {"", "kpa"}, {"", "kpq"}, {"", "kpa"}, {"", "kpa"}}},
	{verbs.QPStateInit, verbs.QPStateRTR, [5][2]string{{"vmDedw", "lak"}, {"vmDe", "lak"}, {"", "kq"}, {"vmDe", "lak"}, {"vmDedw", "lak"}}},
	{verbs.QPStateRTR, verbs.QPStateRTS, [5][2]string{{"trRsi", "clawg"}, {"s", "clag"}, {"s", "cq"}, {"trRsi", "clag"}, {"ts", "clawg"}}},
	{verbs.QPStateRTS, verbs.QPStateRTS, [5][2]string{{"", "calgw"}, {"", "calg"}, {"", "cq"}, {"", "calg"}, {"", "calgw"}}},
	{verbs.QPStateRTS, verbs.QPStateSQD, [5][2]string{{"", "n"}, {"", "n"}, {"", "n"}, {"", "n"}, {"", "n"}}},
	{verbs.QPStateSQD, verbs.QPStateRTS, [5][2]string{{"", "clawg"}, {"", "clag"}, {"", "cq"}, {"", "clag"}, {"", "clawg"}}},
	{verbs.QPStateSQD, verbs.QPStateSQD, [5][2]string{{"", "pvtrRidlakwg"}, {"", "vlakg"}, {"", "kq"}, {"", "pvtrRilakg"}, {"", "pvtdlakwg"}}},
	{verbs.QPStateSQE, verbs.QPStateRTS, [5][2]string{{"-", ""}, {"", "ca"}, {"", "cq"}, {"-", ""}, {"-", ""}}},
}

// TestTransitions compares every attribute of every pair of states.
func TestTransitions(t *testing.T) {
	for typ, column := range map[verbs.QPType]int{verbs.QPTypeRC: 0, verbs.QPTypeUC: 1, verbs.QPTypeUD: 2, verbs.QPTypeXRCInitiator: 3, verbs.QPTypeXRCTarget: 4} {
		want := make(map[transition]rule)
		for _, l := range legal {
			if c := l.types[column]; c[0] != "-" {
				want[transition{l.from, l.to}] = rule{mask(c[0]), mask(c[1])}
			}
		}
		for from := verbs.QPStateReset; from <= verbs.QPStateErr; from++ {
			for to := verbs.QPStateReset; to <= verbs.QPStateErr; to++ {
				r, ok := want[transition{from, to}]
				anyway := to == verbs.QPStateReset || to == verbs.QPStateErr && from != verbs.QPStateReset
				if got := Explain(typ, from, to, verbs.QPAttrState|r.required); (got == "") != (ok || anyway) {
					t.Errorf("%v %v to %v: %q", typ, from, to, got)
				}
				if !ok || anyway {
					continue
				}
				for bit := verbs.QPAttrMask(2); bit <= verbs.QPAttrDestQPN; bit <<= 1 {
					with := Explain(typ, from, to, verbs.QPAttrState|r.required|bit)
					if allowed := bit&(r.required|r.optional) != 0; (with == "") != allowed {
						t.Errorf("%v %v to %v with %v: %q", typ, from, to, bit, with)
					}
					without := Explain(typ, from, to, verbs.QPAttrState|r.required&^bit)
					if needed := bit&r.required != 0; (without != "") != needed {
						t.Errorf("%v %v to %v without %v: %q", typ, from, to, bit, without)
					}
				}
			}
		}
	}
}

// TestSRD checks that SRD's table is UD's, and RTS also takes RNRRetry.
func TestSRD(t *testing.T) {
	want := Of(verbs.QPTypeUD)
	for i := range want {
		if want[i].From == verbs.QPStateRTR && want[i].To == verbs.QPStateRTS {
			want[i].Optional |= verbs.QPAttrRNRRetry
		}
	}
	if got := Of(verbs.QPTypeSRD); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestExplanations(t *testing.T) {
	for _, c := range []struct {
		typ      verbs.QPType
		from, to verbs.QPState
		mask     verbs.QPAttrMask
		want     string
	}{
		{verbs.QPTypeRC, verbs.QPStateReset, verbs.QPStateRTS, 0, "no RC QP goes from RESET to RTS; from RESET the next is INIT"},
		{verbs.QPTypeRC, verbs.QPStateErr, verbs.QPStateInit, 0, "no RC QP goes from ERR to INIT"},
		{verbs.QPTypeUD, verbs.QPStateReset, verbs.QPStateInit, verbs.QPAttrPort, "RESET to INIT of a UD QP also needs PKeyIndex|QKey"},
		{verbs.QPTypeUC, verbs.QPStateRTR, verbs.QPStateRTS, verbs.QPAttrSQPSN | verbs.QPAttrAckTimeout, "RTR to RTS of a UC QP can't take AckTimeout"},
		{verbs.QPType(255), verbs.QPStateReset, verbs.QPStateRTS, 0, ""},
		{verbs.QPTypeRC, verbs.QPState(9), verbs.QPStateRTS, 0, "no RC QP goes from QPState(9) to RTS"},
	} {
		if got := Explain(c.typ, c.from, c.to, verbs.QPAttrState|c.mask); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
