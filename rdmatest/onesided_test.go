package rdmatest_test

import (
	"encoding/binary"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestStoreWhileRead: a server stores while a client reads and writes beside it, as with a cache of
// one-sided reads. The race detector sees nothing of the client, as of a device, and each
// aligned word is whole.
func TestStoreWhileRead(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		cache := make([]byte, 128)
		reader := region(t, a, nil)
		mr := closed(t, must(b.PD().RegMR(cache, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(t))
		const rounds = 100
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range uint64(rounds) {
				binary.NativeEndian.PutUint64(cache, i<<32|i)
				_ = cache[64]
			}
		}()
		wcs := make([]verbs.WC, 1)
		for range rounds {
			for _, wr := range []verbs.SendWR{
				{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{reader.SGE(0, 64)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()},
				{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{reader.SGE(64, 64)}, RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()},
			} {
				wr.Flags = verbs.SendSignaled
				if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
					t.Fatal(err)
				}
				if _, err := a.SendCQ().Wait(t.Context(), wcs); err != nil || wcs[0].Status != verbs.StatusSuccess {
					t.Fatal(wcs[0].Status, err)
				}
			}
			if v := binary.NativeEndian.Uint64(reader.Bytes()); v>>32 != v&(1<<32-1) {
				t.Errorf("a word is torn: %#x", v)
			}
		}
		<-done
	})
}
