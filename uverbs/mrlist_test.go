package uverbs

import (
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestRegionsWrite: a provider writes where the key's region has memory that may be written, and
// nowhere else.
func TestRegionsWrite(t *testing.T) {
	newMR := func(key uint32, access verbs.Access) *MR {
		return &MR{lkey: key, data: make([]byte, 16), iova: 0x1000, access: access}
	}
	plain, zero := newMR(1, verbs.AccessLocalWrite), newMR(2, verbs.AccessLocalWrite|verbs.AccessZeroBased)
	readOnly, implicit := newMR(3, verbs.AccessRemoteRead), &MR{lkey: 4, access: verbs.AccessLocalWrite | verbs.AccessOnDemand}
	var r regions
	for _, mr := range []*MR{plain, zero, readOnly, implicit} {
		r.add(mr)
	}
	d := driverDevice{dev: &Device{}}
	d.dev.regions.add(plain)
	for _, c := range []struct {
		what string
		key  uint32
		addr uint64
		ok   bool
	}{
		{"the beginning", 1, 0x1000, true}, {"the end", 1, 0x100c, true}, {"behind the end", 1, 0x100d, false}, {"before it", 1, 0xfff, false},
		{"far behind it", 1, 1<<64 - 2, false}, {"based on zero", 2, 0, true}, {"based on zero, by its address", 2, 0x1000, false},
		{"read only", 3, 0x1000, false}, {"all memory", 4, 0x1000, false}, {"no region", 5, 0x1000, false},
	} {
		for _, mr := range []*MR{plain, zero, readOnly} {
			clear(mr.data)
		}
		if got := r.write(c.key, c.addr, []byte("text")); got != c.ok {
			t.Errorf("%s: %v", c.what, got)
		}
		written := 0
		for _, mr := range []*MR{plain, zero, readOnly} {
			for _, b := range mr.data {
				if b != 0 {
					written++
				}
			}
		}
		if want := map[bool]int{true: 4}[c.ok]; written != want {
			t.Errorf("%s: %d bytes are written, want %d", c.what, written, want)
		}
	}
	r.remove(plain)
	if r.write(1, 0x1000, []byte("text")) {
		t.Error("a region that is closed")
	}
	if !d.Write(1, 0x1000, []byte("text")) || string(plain.data[:4]) != "text" || d.Write(9, 0x1000, []byte("text")) {
		t.Errorf("by the device: %q", plain.data[:4])
	}
}
