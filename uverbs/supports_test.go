package uverbs_test

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSupports asks a provider that knows, one that does not, and none.
func TestSupports(t *testing.T) {
	_, dev := openSIW(t)
	if !dev.Supports(verbs.QPTypeRC, verbs.OpSend) || dev.Supports(verbs.QPTypeRC, verbs.OpSendImm) || dev.Supports(verbs.QPTypeUD, verbs.OpSend) {
		t.Error("siw has SEND on RC, and no immediate data")
	}
	silent := openBare(t, fakeverbs.New(uint32(verbs.DriverHNS)), verbs.QPTypeRC).PD().Device()
	_, none := open(t, uverbs.DeviceInfo{Name: "ocrdma0", Driver: verbs.DriverOCRDMA})
	for name, dev := range map[string]*uverbs.Device{"silent": silent, "none": none} {
		for op := range verbs.Opcode(16) {
			if dev.Supports(verbs.QPTypeRC, op) {
				t.Errorf("%s: %v", name, op)
			}
		}
	}
}
