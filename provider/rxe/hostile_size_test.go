package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// offer is a kernel that offers one queue.
type offer struct {
	driver.Call
	region *mmap.Region
}

func (o offer) Map(int64, int, mmap.Prot) (*mmap.Region, error) { return o.region, nil }

// An entry needs room for its fixed part and for the payload. If it had room only for the
// larger of them, the payload of the last entry would be written past the mapping.
func TestHostileEntrySize(t *testing.T) {
	mi := &abi.Mminfo{Size: 1}
	for _, c := range []struct {
		log2 uint32
		sges uint32
		ok   bool
	}{{8, 3, true}, {8, 4, false}, {8, 16, false}, {9, 16, true}, {9, 19, true}, {9, 20, false}, {9, 32, false}} {
		r := &driver.CreateQP{Call: offer{region: newQueue(t, c.log2).region}, Cap: verbs.QPCap{MaxSendSGE: c.sges}}
		if err := new(qp).mapSend(r, mi); (err == nil) != c.ok {
			t.Errorf("send entries of 2^%d bytes with %d SGEs: %v", c.log2, c.sges, err)
		}
		r = &driver.CreateQP{Call: r.Call, Cap: verbs.QPCap{MaxInline: c.sges * sgeSize}}
		if err := new(qp).mapSend(r, mi); (err == nil) != c.ok {
			t.Errorf("send entries of 2^%d bytes with %d bytes inline: %v", c.log2, r.Cap.MaxInline, err)
		}
	}
	for _, c := range []struct {
		log2 uint32
		sges uint32
		ok   bool
	}{{6, 1, true}, {6, 2, false}, {6, 4, false}, {7, 5, true}, {7, 6, false}, {7, 8, false}} {
		r := &driver.CreateQP{Call: offer{region: newQueue(t, c.log2).region}, Cap: verbs.QPCap{MaxRecvSGE: c.sges}}
		if err := new(qp).mapRecv(r, mi); (err == nil) != c.ok {
			t.Errorf("receive entries of 2^%d bytes with %d SGEs: %v", c.log2, c.sges, err)
		}
	}
}
