//go:build vm

package test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestDevices: rdma-core's list is ours, and each device opens by name and by
// index.
func TestDevices(t *testing.T) {
	fabric(t)
	noLeak(t)
	infos := must(uverbs.Devices())(t)
	theirs := sh(t, "ibv_devices")
	if n := strings.Count(theirs, "gv"); n < 3 || len(infos) != n {
		t.Errorf("%+v\n%s", infos, theirs)
	}
	for _, info := range infos {
		siw := strings.HasPrefix(info.Name, "gvsiw")
		if !strings.Contains(theirs, info.Name) || siw != (info.Driver == verbs.DriverSIW) {
			t.Errorf("%+v\n%s", info, theirs)
		}
		for _, dev := range []*uverbs.Device{must(uverbs.Open(info.Name))(t), must(uverbs.OpenIndex(info.Index, info.NodeGUID))(t)} {
			if dev.Info() != info {
				t.Errorf("%+v, listed as %+v", dev.Info(), info)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := uverbs.Open("nosuch"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), dummyLink+" (siw, index ") {
		t.Error(err)
	}
}
