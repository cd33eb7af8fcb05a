//go:build vm

package test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRegMRAt: a region is named by the addresses that were chosen for it, by its own side in
// SGEs and by the peer.
func TestRegMRAt(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := connectAt(t, rxeIPv4+":0", setup{}, setup{})
	const at, iova = 128, 0x10_0000_0000 + 128 // the same place of a page
	for _, e := range []*end{a, b} {
		m := must(e.PD().RegMRAt(e.mr.Bytes()[at:][:4096], iova, allAccess))(t)
		e.Own(m)
		if attr := must(m.Query())(t); attr.IOVA != iova || m.Addr() != iova || attr.Length != 4096 {
			t.Errorf("%+v, Addr %#x", attr, m.Addr())
		}
		e.mr = m // from here on; the first one is the Conn's to close
	}
	want := pattern(a.mr.Bytes()[:100], 9)
	a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.mr.SGE(0, 100)},
		RemoteAddr: iova + 1000, RKey: b.mr.RKey()})
	a.sent("1 RDMA_WRITE success")
	if !bytes.Equal(b.mr.Bytes()[1000:1100], want) {
		t.Error("the data is not where the address says")
	}
}

// TestRegMRAtSiw: siw's kernel takes a region at any address, and then knows the memory's own
// alone (a peer's READ at the chosen one ended the connection when it was tried); so
// provider/siw refuses the others.
func TestRegMRAtSiw(t *testing.T) {
	fabric(t)
	noLeak(t)
	_, b := connect(t, setup{}, setup{})
	if _, err := b.PD().RegMRAt(make([]byte, 4096), 1<<40, allAccess); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestHandles: the kernel lists the objects created through a descriptor, without those that were closed.
func TestHandles(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		d := pd.Device()
		list := func(kind verbs.ObjectKind) int { return len(must(d.Handles(kind))(t)) }
		before := list(verbs.ObjectMR)
		one, two := must(pd.AllocMR(4096, verbs.AccessLocalWrite, nil))(t), must(pd.AllocMR(4096, verbs.AccessLocalWrite, nil))(t)
		if pds, mrs := list(verbs.ObjectPD), list(verbs.ObjectMR)-before; pds != 1 || mrs != 2 {
			t.Errorf("%d PDs, %d MRs", pds, mrs)
		}
		for _, mr := range []*uverbs.MR{one, two} {
			if err := mr.Close(); err != nil {
				t.Error(err)
			}
		}
		if mrs := list(verbs.ObjectMR); mrs != before {
			t.Errorf("%d MRs are left", mrs-before)
		}
	})
}
