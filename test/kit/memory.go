//go:build vm

package kit

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// KindSize is the size of the regions that MemoryKinds makes, in bytes.
const KindSize = 100_000

// MemoryKinds registers a region of each kind of memory.
var MemoryKinds = map[string]func(*testing.T, *uverbs.PD) *uverbs.MR{
	"own": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return Must(pd.AllocMR(KindSize, AllAccess, nil))(t)
	},
	"huge pages": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		hugePages(t)
		mr := Must(pd.AllocMR(KindSize, AllAccess, &uverbs.MROptions{Huge: true}))(t)
		if mr.Addr()%(2<<20) != 0 || !strings.Contains(Sh(t, "cat /proc/meminfo"), "HugePages_Free:        3") {
			t.Error("not in huge pages")
		}
		return mr
	},
	"Go slice": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return Must(pd.RegMR(make([]byte, KindSize), AllAccess))(t)
	},
	"part of a Go slice": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return Must(pd.RegMR(make([]byte, 2*KindSize)[333:KindSize+333], AllAccess))(t)
	},
	"relaxed ordering": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return Must(pd.AllocMR(KindSize, AllAccess|verbs.AccessRelaxedOrdering, nil))(t)
	},
	"caller's mapping": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		b := Must(syscall.Mmap(-1, 0, KindSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON))(t)
		t.Cleanup(func() { syscall.Munmap(b) })
		return Must(pd.RegMR(b, AllAccess))(t)
	},
}

// WithoutHugePages is the error of a request for a huge page with an empty pool, or on a kernel
// without huge pages.
func WithoutHugePages() (words string, errno error) {
	if OnUML() {
		return "invalid argument: this kernel has no 2 MiB pages", syscall.EINVAL
	}
	return "cannot allocate memory: too few free 2 MiB pages: raise vm.nr_hugepages by 1", syscall.ENOMEM
}

// hugePages fills the pool for the length of a test.
func hugePages(t *testing.T) {
	t.Helper()
	if OnUML() {
		t.Skip("User Mode Linux has no huge pages")
	}
	const pool = " >/proc/sys/vm/nr_hugepages"
	Sh(t, "echo 4"+pool)
	t.Cleanup(func() { Sh(t, "echo 0"+pool) })
}

// Poster is one end of a connection, over siw or rxe.
type Poster interface {
	Post(wrs ...verbs.SendWR)
	Sent(want string)
}

// WrittenAndRead writes the first size bytes of local to the peer's region, and reads them back
// into the bytes behind.
func WrittenAndRead(t *testing.T, e Poster, local, mr *uverbs.MR, size int) {
	t.Helper()
	Pattern(local.Bytes()[:size], 7)
	clear(local.Bytes()[size : 2*size])
	e.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()},
		verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{local.SGE(size, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	e.Sent("2 RDMA_READ success")
	if !bytes.Equal(mr.Bytes()[:size], local.Bytes()[:size]) || !bytes.Equal(local.Bytes()[size:2*size], local.Bytes()[:size]) {
		t.Error("the data changed")
	}
}
