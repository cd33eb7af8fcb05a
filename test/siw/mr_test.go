//go:build vm

package siw

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRegMRAt checks that a region is named by the addresses that were chosen for it, by its own side in SGEs and by
// the peer.
func TestRegMRAt(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.ConnectAt(t, kit.RxeIPv4+":0", kit.Setup{}, kit.Setup{})
	const at, iova = 128, 0x10_0000_0000 + 128 // the same place of a page
	for _, e := range []*kit.End{a, b} {
		m := kit.Must(e.PD().RegMRAt(e.MR.Bytes()[at:][:4096], iova, kit.AllAccess))(t)
		e.Own(m)
		if attr := kit.Must(m.Query())(t); attr.IOVA != iova || m.Addr() != iova || attr.Length != 4096 {
			t.Errorf("%+v, Addr %#x", attr, m.Addr())
		}
		e.MR = m // from here on; the first one is the Conn's to close
	}
	want := kit.Pattern(a.MR.Bytes()[:100], 9)
	a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 100)},
		RemoteAddr: iova + 1000, RKey: b.MR.RKey()})
	a.Sent("1 RDMA_WRITE success")
	if !bytes.Equal(b.MR.Bytes()[1000:1100], want) {
		t.Error("the data is not where the address says")
	}
}

// TestRegMRAtSiw checks that siw's kernel takes a region at any address, and then knows the memory's own alone (a
// peer's READ at the chosen one ended the connection when it was tried); so provider/siw refuses the others.
func TestRegMRAtSiw(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	_, b := connect(t, kit.Setup{}, kit.Setup{})
	if _, err := b.PD().RegMRAt(make([]byte, 4096), 1<<40, kit.AllAccess); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestHandles checks that the kernel lists the objects created through a descriptor, without those that were closed.
func TestHandles(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		d := pd.Device()
		list := func(kind verbs.ObjectKind) int { return len(kit.Must(d.Handles(kind))(t)) }
		before := list(verbs.ObjectMR)
		one, two := kit.Must(pd.AllocMR(4096, verbs.AccessLocalWrite, nil))(t), kit.Must(pd.AllocMR(4096, verbs.AccessLocalWrite, nil))(t)
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

// TestQueryMR checks that the kernel reports the same keys and length of a region.
func TestQueryMR(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		mr := kit.Must(pd.AllocMR(10_000, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil))(t)
		kit.CloseLater(t, mr)
		want := uverbs.MRAttr{LKey: mr.LKey(), RKey: mr.RKey(), Length: 10_000, IOVA: mr.Addr()}
		if got := kit.Must(mr.Query())(t); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestRegDMABuf checks that neither driver takes dma-bufs, and the error says so.
func TestRegDMABuf(t *testing.T) {
	onBoth(t, func(t *testing.T, pd *uverbs.PD) {
		f := kit.Must(os.Open("/proc/self/exe"))(t)
		defer f.Close()
		_, err := pd.RegDMABuf(f, 0, 4096, 0, verbs.AccessLocalWrite)
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "does not support dma-bufs") {
			t.Error(err)
		}
		if _, err := pd.RegDMABuf(f, 0, 0, 0, 0); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	})
}

// onBoth runs a test on a device of each driver.
func onBoth(t *testing.T, test func(*testing.T, *uverbs.PD)) {
	for _, l := range []kit.PerfLink{kit.PerfRxe, kit.PerfSiwCM} {
		t.Run(l.Device, func(t *testing.T) {
			l.Up(t)
			kit.NoLeak(t)
			d := kit.Must(uverbs.Open(l.Device))(t)
			kit.CloseLater(t, d)
			pd := kit.Must(d.AllocPD())(t)
			kit.CloseLater(t, pd)
			test(t, pd)
		})
	}
}

// TestMemory has the peer write to and read from each kind of memory.
func TestMemory(t *testing.T) {
	kit.Fabric(t)
	for name, register := range kit.MemoryKinds {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			c, s := connect(t, kit.Setup{Size: 2 * kit.KindSize}, kit.Setup{})
			mr := register(t, s.PD())
			kit.CloseLater(t, mr)
			runtime.GC() // which neither frees nor moves it
			kit.WrittenAndRead(t, c, c.MR, mr, kit.KindSize)
		})
	}
}

// TestMemoryAndFork checks that while other processes are started, and copies of this one's memory
// with them, the device goes on to use the memory that this one sees.
func TestMemoryAndFork(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{})
	slice := make([]byte, 4096)
	mr := kit.Must(s.PD().RegMR(slice, kit.AllAccess))(t)
	kit.CloseLater(t, mr)
	kit.Start(t, exec.Command("sleep", "1000")) // ends with the test
	kit.Pattern(slice, 5)
	c.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 4096)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	c.Sent("1 RDMA_READ success")
	if !bytes.Equal(slice, c.MR.Bytes()[:4096]) {
		t.Error("the device reads other memory")
	}
}

// TestMemoryRefused pins what registering says when it can't.
func TestMemoryRefused(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	readOnly := kit.Must(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer syscall.Munmap(readOnly)
	noHugeWords, noHuge := kit.WithoutHugePages()
	for _, test := range []struct {
		register func() (*uverbs.MR, error)
		is       error
		want     string
	}{
		{func() (*uverbs.MR, error) { return k.pd.RegMR(nil, kit.AllAccess) }, syscall.EINVAL,
			"create MR on gvsiw0: invalid argument: the memory is empty"},
		{func() (*uverbs.MR, error) { return k.pd.RegMR(make([]byte, 8), verbs.AccessRemoteWrite) }, syscall.EINVAL,
			"create MR on gvsiw0: invalid argument: remote write and remote atomic need AccessLocalWrite too"},
		{func() (*uverbs.MR, error) { return k.pd.RegMR(readOnly, verbs.AccessLocalWrite) }, syscall.EFAULT,
			"create MR on gvsiw0: bad address: the memory is not mapped, or not writable although the access flags say so, or a shared mapping of a file on disk: Linux pins pages of those for reading only (use a private mapping, tmpfs or hugetlbfs)"},
		{func() (*uverbs.MR, error) { return k.pd.AllocMR(8, 0, &uverbs.MROptions{Huge: true}) }, noHuge,
			"allocate memory for MR on gvsiw0: map 2097152 bytes of anonymous memory: " + noHugeWords},
	} {
		_, err := test.register()
		if !errors.Is(err, test.is) || err.Error() != test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
}

// TestCloseOrder checks that an object in use does not close, and the error names its users.
func TestCloseOrder(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	qp := k.qp(t)
	srq := kit.Must(k.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))(t)
	kit.CloseLater(t, srq)
	more := [3]*uverbs.PD{}
	for i := range more {
		more[i] = kit.Must(k.dev.AllocPD())(t)
	}
	for object, holders := range map[interface{ Close() error }]string{
		k.pd:      fmt.Sprintf("close MR, QP %d, SRQ first", qp.QPN()),
		k.channel: "close CQ first",
		k.cq:      fmt.Sprintf("close QP %d first", qp.QPN()),
		k.dev:     "close CQ, PD, PD, PD, PD, completion channel first",
	} {
		err := object.Close()
		if !errors.Is(err, verbs.ErrInUse) || !strings.HasSuffix(kit.Number.ReplaceAllString(err.Error(), "$1"), ": in use: "+holders) {
			t.Errorf("%v\nwant %s", err, holders)
		}
	}
	for _, pd := range more {
		if err := pd.Close(); err != nil {
			t.Error(err)
		}
		if err := pd.Close(); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
		if _, err := pd.RegMR(make([]byte, 8), 0); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
}
