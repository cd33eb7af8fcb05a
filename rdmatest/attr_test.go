package rdmatest_test

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// TestAttributes holds numbers of the devices in software to those of Linux 6.12.
func TestAttributes(t *testing.T) {
	for kind, want := range map[rdmatest.Kind]struct {
		maxQP int
		msg   uint32
	}{rdmatest.SIW: {102400, 1<<32 - 1}, rdmatest.RXE: {1048560, 1 << 31}} {
		dev := closed(t, must(uverbs.Open(rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}).Host(0).Device(0).Name()))(t))
		attr, port := must(dev.QueryDevice())(t), must(dev.QueryPort(1))(t)
		if int(attr.MaxQP) != want.maxQP || uint32(port.MaxMsgSize) != want.msg {
			t.Errorf("%v: %d, %#x", kind, attr.MaxQP, port.MaxMsgSize)
		}
	}
}
