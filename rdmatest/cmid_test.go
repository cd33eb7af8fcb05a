package rdmatest_test

import (
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// TestAckTimeout: what a program sets is in its queue pair, over RoCE.
func TestAckTimeout(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			dialled, _ := meetBy(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), &rdmacm.Dialer{AckTimeout: 8 * time.Second})
			if a, err := dialled.QP().Query(); err != nil || a.Timeout != 21 {
				t.Error(a, err)
			}
		})
	}
}

// TestDeviceAttr: each device is a system of its own, with pages as they are here.
func TestDeviceAttr(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		d := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
		a := must(d.Query())(t)
		if a.NodeGUID == 0 || a.SysImageGUID != a.NodeGUID || a.PageSizeCap&4096 == 0 {
			t.Errorf("%v, %v, pages of %#x", a.NodeGUID, a.SysImageGUID, a.PageSizeCap)
		}
	})
}
