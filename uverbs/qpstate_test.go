package uverbs

import "testing"

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
