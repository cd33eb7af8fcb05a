package rdmacm

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
)

// newDeviceTable opens devices of fake kernels and notes the GUIDs they were
// asked for with.
func newDeviceTable(opened *[]uverbs.GUID) *deviceTable {
	return &deviceTable{shared: make(map[uint32]*sharedDevice), open: func(index uint32, guid uverbs.GUID) (*uverbs.Device, error) {
		*opened = append(*opened, guid)
		info := uverbs.DeviceInfo{Name: "rxe0", Index: index, NodeGUID: guid, Driver: uverbs.DriverRXE, ABI: 2}
		return openOn(info, fakeverbs.New(uint32(uverbs.DriverRXE)))
	}}
}

// An index that another device has by now does not lead to the old one, whose
// users go on with it and close it.
func TestDeviceIndexReused(t *testing.T) {
	var opened []uverbs.GUID
	table := newDeviceTable(&opened)
	var users []*sharedDevice
	for _, guid := range []uverbs.GUID{1, 1, 2, 2} {
		s, err := table.get(5, guid)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.dev.Info().NodeGUID; got != guid {
			t.Errorf("asked for %v, got %v", guid, got)
		}
		users = append(users, s)
	}
	if len(opened) != 2 {
		t.Error("opened", opened)
	}
	for _, s := range users {
		if err := s.put(); err != nil {
			t.Error(err)
		}
	}
	if len(table.shared) != 0 {
		t.Error("kept:", table.shared)
	}
	for _, dev := range []*uverbs.Device{users[0].dev, users[2].dev} {
		if err := dev.Close(); err == nil {
			t.Error("a device was left open")
		}
	}
}
