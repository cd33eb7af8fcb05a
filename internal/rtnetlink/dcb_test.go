package rtnetlink

import (
	"encoding/binary"
	"testing"
)

// TestPFCCounters reads the frames of each priority, and nothing from a kernel's answer that is cut
// short.
func TestPFCCounters(t *testing.T) {
	pfc := make([]byte, pfcSize)
	pfc[pfcEnabledByte] = 1 << 3
	for p := range 8 {
		binary.NativeEndian.PutUint64(pfc[8+8*p:], uint64(100+p))
		binary.NativeEndian.PutUint64(pfc[72+8*p:], uint64(200+p))
	}
	for size := range len(pfc) + 1 {
		route := Route(func(uint16, bool, []byte) ([][]byte, error) {
			return [][]byte{append([]byte{0, dcbIEEEGet, 0, 0}, attr(dcbIEEE, attr(ieeePFC, pfc[:size]))...)}, nil
		})
		d, err := route.DCB("eth0")
		if err != nil || d.HasPFC != (size > pfcEnabledByte) {
			t.Fatal(size, d, err)
		}
		want := size == len(pfc)
		if got := d.PFCSent[7] == 107 && d.PFCReceived[7] == 207 && d.PFCSent[0] == 100 && d.PFCReceived[0] == 200; got != want {
			t.Errorf("%d bytes: %v", size, d)
		}
	}
}

// FuzzReplies decodes any answer.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, dcbIEEEGet, 0, 0, 8, 0, dcbIEEE, 0, 4, 0, ieeePFC, 0})
	f.Add(append(make([]byte, 20), attr(tcaKind, []byte("red\x00"))...))
	f.Fuzz(func(t *testing.T, reply []byte) {
		route := Route(func(uint16, bool, []byte) ([][]byte, error) { return [][]byte{reply}, nil })
		if _, err := route.DCB("eth0"); err != nil {
			t.Error(err)
		}
		if _, err := route.Qdiscs(0); err != nil {
			t.Error(err)
		}
	})
}
