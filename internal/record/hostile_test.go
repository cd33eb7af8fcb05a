package record

import (
	"io"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// FuzzEntries fills entries and the private bytes of calls with anything, as programs can. The
// recorder must record it.
func FuzzEntries(f *testing.F) {
	drivers := []uint32{abi.RDMA_DRIVER_EFA, abi.RDMA_DRIVER_ERDMA, abi.RDMA_DRIVER_MLX5, abi.RDMA_DRIVER_RXE, abi.RDMA_DRIVER_SIW}
	kinds := []fakeverbs.CrossingKind{fakeverbs.EntrySQE, fakeverbs.EntryRQE, fakeverbs.CallIn, fakeverbs.Doorbell}
	for d := range drivers {
		for kind := range kinds {
			for op := range 32 {
				for _, segments := range []byte{0, 1, 2, 63} {
					entry := make([]byte, 64)
					entry[3], entry[7] = byte(op)<<3|byte(op)&7, segments
					f.Add(uint8(d), uint8(kind), entry)
					entry[3] = byte(op)
					f.Add(uint8(d), uint8(kind), append([]byte(nil), entry...))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, driver, kind uint8, b []byte) {
		entry := make([]byte, max(64, len(b)/64*64)) // queues have blocks of 64 bytes
		copy(entry, b)
		k := fakeverbs.New(drivers[int(driver)%len(drivers)])
		r := New(io.Discard)
		r.Attach(k)
		k.Cross(&fakeverbs.Crossing{Kind: kinds[int(kind)%len(kinds)], Call: "QP_CREATE", Object: 1, Bytes: entry})
		if r.Err() != nil {
			t.Error(r.Err())
		}
	})
}
