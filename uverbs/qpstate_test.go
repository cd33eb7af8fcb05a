package uverbs

import "testing"

// The attributes of a transition, each a letter, as the kernel's qp_state_table
// has them (drivers/infiniband/core/verbs.c).
var letters = map[rune]QPAttrMask{
	'c': 1 << 1, 'n': 1 << 2, 'a': 1 << 3, 'k': 1 << 4, 'p': 1 << 5, 'q': 1 << 6, 'v': 1 << 7, 'm': 1 << 8, 't': 1 << 9,
	'r': 1 << 10, 'R': 1 << 11, 'e': 1 << 12, 'i': 1 << 13, 'l': 1 << 14, 'w': 1 << 15, 's': 1 << 16, 'd': 1 << 17,
	'g': 1 << 18, 'D': 1 << 20,
}

func mask(s string) (m QPAttrMask) {
	for _, l := range s {
		m |= letters[l]
	}
	return m
}

// legal lists from, to, then required and optional attributes of RC, UC and UD.
// "-" is a transition that the type has not.
var legal = []struct {
	from, to   QPState
	rc, uc, ud [2]string
}{
	{QPStateReset, QPStateInit, [2]string{"kpa", ""}, [2]string{"kpa", ""}, [2]string{"kpq", ""}},
	{QPStateInit, QPStateInit, [2]string{"", "kpa"}, [2]string{"", "kpa"}, [2]string{"", "kpq"}},
	{QPStateInit, QPStateRTR, [2]string{"vmDedw", "lak"}, [2]string{"vmDe", "lak"}, [2]string{"", "kq"}},
	{QPStateRTR, QPStateRTS, [2]string{"trRsi", "clawg"}, [2]string{"s", "clag"}, [2]string{"s", "cq"}},
	{QPStateRTS, QPStateRTS, [2]string{"", "calgw"}, [2]string{"", "calg"}, [2]string{"", "cq"}},
	{QPStateRTS, QPStateSQD, [2]string{"", "n"}, [2]string{"", "n"}, [2]string{"", "n"}},
	{QPStateSQD, QPStateRTS, [2]string{"", "clawg"}, [2]string{"", "clag"}, [2]string{"", "cq"}},
	{QPStateSQD, QPStateSQD, [2]string{"", "pvtrRidlakwg"}, [2]string{"", "vlakg"}, [2]string{"", "kq"}},
	{QPStateSQE, QPStateRTS, [2]string{"-", ""}, [2]string{"", "ca"}, [2]string{"", "cq"}},
}

// TestTransitions compares every pair of states and every attribute of them.
func TestTransitions(t *testing.T) {
	for typ, column := range map[QPType]int{QPTypeRC: 0, QPTypeUC: 1, QPTypeUD: 2} {
		want := make(map[transition]rule)
		for _, l := range legal {
			if c := [3][2]string{l.rc, l.uc, l.ud}[column]; c[0] != "-" {
				want[transition{l.from, l.to}] = rule{mask(c[0]), mask(c[1])}
			}
		}
		for from := QPStateReset; from <= QPStateErr; from++ {
			for to := QPStateReset; to <= QPStateErr; to++ {
				r, ok := want[transition{from, to}]
				anyway := to == QPStateReset || to == QPStateErr && from != QPStateReset
				if got := explainTransition(typ, from, to, QPAttrState|r.required); (got == "") != (ok || anyway) {
					t.Errorf("%v %v to %v: %q", typ, from, to, got)
				}
				if !ok || anyway {
					continue
				}
				for bit := QPAttrMask(2); bit <= QPAttrDestQPN; bit <<= 1 {
					with := explainTransition(typ, from, to, QPAttrState|r.required|bit)
					if allowed := bit&(r.required|r.optional) != 0; (with == "") != allowed {
						t.Errorf("%v %v to %v with %v: %q", typ, from, to, bit, with)
					}
					without := explainTransition(typ, from, to, QPAttrState|r.required&^bit)
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
		typ      QPType
		from, to QPState
		mask     QPAttrMask
		want     string
	}{
		{QPTypeRC, QPStateReset, QPStateRTS, 0, "no RC QP goes from RESET to RTS; from RESET the next is INIT"},
		{QPTypeRC, QPStateErr, QPStateInit, 0, "no RC QP goes from ERR to INIT"},
		{QPTypeUD, QPStateReset, QPStateInit, QPAttrPort, "RESET to INIT of a UD QP also needs PKeyIndex|QKey"},
		{QPTypeUC, QPStateRTR, QPStateRTS, QPAttrSQPSN | QPAttrTimeout, "RTR to RTS of a UC QP can't take Timeout"},
		{QPType(255), QPStateReset, QPStateRTS, 0, ""},
		{QPTypeRC, QPState(9), QPStateRTS, 0, "no RC QP goes from QPState(9) to RTS"},
	} {
		if got := explainTransition(c.typ, c.from, c.to, QPAttrState|c.mask); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestUnknownNumbers has values of a newer kernel print as numbers.
func TestUnknownNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Status(27).String(), "Status(27)"}, {WCOpcode(27).String(), "WCOpcode(27)"}, {Opcode(27).String(), "Opcode(27)"},
		{QPState(27).String(), "QPState(27)"}, {QPType(27).String(), "QPType(27)"}, {EventType(1<<32 - 1).String(), "EventType(4294967295)"},
		{DriverID(99).String(), "DriverID(99)"}, {GIDType(27).String(), "GIDType(27)"}, {LinkLayer(27).String(), "LinkLayer(27)"},
		{QPAttrMask(1<<26 | 1).String(), "State|0x4000000"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if MTU(0).Bytes() != 0 || MTU4096.Bytes() != 4096 || MTU(200).Bytes() != 0 {
		t.Error("MTU")
	}
}
