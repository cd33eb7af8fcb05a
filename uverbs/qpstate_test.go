package uverbs

import (
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestUnknownNumbers has values of a newer kernel print as numbers.
func TestUnknownNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{verbs.Status(27).String(), "Status(27)"}, {verbs.WCOpcode(27).String(), "WCOpcode(27)"}, {verbs.Opcode(27).String(), "Opcode(27)"},
		{verbs.QPState(27).String(), "QPState(27)"}, {verbs.QPType(27).String(), "QPType(27)"}, {EventType(1<<32 - 1).String(), "EventType(4294967295)"},
		{verbs.DriverID(99).String(), "DriverID(99)"}, {verbs.GIDType(27).String(), "GIDType(27)"}, {verbs.LinkLayer(27).String(), "LinkLayer(27)"},
		{verbs.QPAttrMask(1<<26 | 1).String(), "State|0x4000000"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if verbs.MTU(0).Bytes() != 0 || verbs.MTU4096.Bytes() != 4096 || verbs.MTU(200).Bytes() != 0 {
		t.Error("MTU")
	}
}
