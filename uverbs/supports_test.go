package uverbs_test

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
)

// TestSupports asks a provider that knows, one that does not, and none.
func TestSupports(t *testing.T) {
	_, dev := openSIW(t)
	if !dev.Supports(uverbs.QPTypeRC, uverbs.OpSend) || dev.Supports(uverbs.QPTypeRC, uverbs.OpSendImm) || dev.Supports(uverbs.QPTypeUD, uverbs.OpSend) {
		t.Error("siw has SEND on RC, and no immediate data")
	}
	silent := openBare(t, fakeverbs.New(uint32(uverbs.DriverHNS)), uverbs.QPTypeRC).PD().Device()
	_, none := open(t, uverbs.DeviceInfo{Name: "ocrdma0", Driver: uverbs.DriverOCRDMA})
	for name, dev := range map[string]*uverbs.Device{"silent": silent, "none": none} {
		for op := range uverbs.Opcode(16) {
			if dev.Supports(uverbs.QPTypeRC, op) {
				t.Errorf("%s: %v", name, op)
			}
		}
	}
}
