package rdmacm

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// newDeviceTable opens devices of fake kernels and notes the GUIDs they were
// asked for with.
func newDeviceTable(opened *[]verbs.GUID) *deviceTable {
	return &deviceTable{shared: make(map[uint32]*sharedDevice), open: func(index uint32, guid verbs.GUID) (*uverbs.Device, error) {
		*opened = append(*opened, guid)
		info := uverbs.DeviceInfo{Name: "rxe0", Index: index, NodeGUID: guid, Driver: verbs.DriverRXE, ABI: 2}
		return openOn(info, fakeverbs.New(uint32(verbs.DriverRXE)))
	}}
}

// An index that another device has by now does not lead to the old one, whose
// users go on with it and close it.
func TestDeviceIndexReused(t *testing.T) {
	var opened []verbs.GUID
	table := newDeviceTable(&opened)
	var users []*sharedDevice
	for _, guid := range []verbs.GUID{1, 1, 2, 2} {
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

// A device that can't be closed, because an object is left on it, stays in the table and
// open until another attempt succeeds.
func TestDeviceNotClosed(t *testing.T) {
	var opened []verbs.GUID
	table := newDeviceTable(&opened)
	s, err := table.get(5, 1)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := s.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.put(); err == nil {
		t.Fatal("closed with a PD on it")
	}
	if again, err := table.get(5, 1); err != nil || again != s || len(opened) != 1 {
		t.Errorf("opened %d times, %v", len(opened), err)
	}
	if err := s.put(); err != nil {
		t.Error(err)
	}
	if err := pd.Close(); err != nil {
		t.Error(err)
	}
	if err := s.put(); err != nil || len(table.shared) != 0 {
		t.Error("kept:", table.shared, err)
	}
	if err := s.dev.Close(); err == nil {
		t.Error("the device was left open")
	}
}
