//go:build vm

package test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// kindSize is the size of the regions that memoryKinds makes, in bytes.
const kindSize = 100_000

// memoryKinds registers each kind of memory.
var memoryKinds = map[string]func(*testing.T, *uverbs.PD) *uverbs.MR{
	"own": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return must(pd.AllocMR(kindSize, allAccess, nil))(t)
	},
	"huge pages": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		hugePages(t)
		mr := must(pd.AllocMR(kindSize, allAccess, &uverbs.MROptions{Huge: true}))(t)
		if mr.Addr()%(2<<20) != 0 || !strings.Contains(sh(t, "cat /proc/meminfo"), "HugePages_Free:        3") {
			t.Error("not in huge pages")
		}
		return mr
	},
	"Go slice": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return must(pd.RegMR(make([]byte, kindSize), allAccess))(t)
	},
	"part of a Go slice": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return must(pd.RegMR(make([]byte, 2*kindSize)[333:kindSize+333], allAccess))(t)
	},
	"relaxed ordering": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		return must(pd.AllocMR(kindSize, allAccess|verbs.AccessRelaxedOrdering, nil))(t)
	},
	"caller's mapping": func(t *testing.T, pd *uverbs.PD) *uverbs.MR {
		b := must(syscall.Mmap(-1, 0, kindSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON))(t)
		t.Cleanup(func() { syscall.Munmap(b) })
		return must(pd.RegMR(b, allAccess))(t)
	},
}

// withoutHugePages is how asking for one fails with an empty pool, or on a kernel that has
// none at all.
func withoutHugePages() (words string, errno error) {
	if onUML() {
		return "invalid argument (this kernel has no 2 MiB pages)", syscall.EINVAL
	}
	return "cannot allocate memory (too few free 2 MiB pages: raise vm.nr_hugepages by 1)", syscall.ENOMEM
}

// hugePages fills the pool for the length of a test.
func hugePages(t *testing.T) {
	t.Helper()
	if onUML() {
		t.Skip("User Mode Linux has no huge pages")
	}
	const pool = " >/proc/sys/vm/nr_hugepages"
	sh(t, "echo 4"+pool)
	t.Cleanup(func() { sh(t, "echo 0"+pool) })
}

// poster is one end of a connection, over siw or rxe.
type poster interface {
	post(wrs ...verbs.SendWR)
	sent(want string)
}

// writtenAndRead writes the first bytes of local, which has room for twice as
// many, to the peer's region, and reads them back.
func writtenAndRead(t *testing.T, e poster, local, mr *uverbs.MR, size int) {
	t.Helper()
	pattern(local.Bytes()[:size], 7)
	clear(local.Bytes()[size : 2*size])
	e.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()},
		verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{local.SGE(size, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	e.sent("2 RDMA_READ success")
	if !bytes.Equal(mr.Bytes()[:size], local.Bytes()[:size]) || !bytes.Equal(local.Bytes()[size:2*size], local.Bytes()[:size]) {
		t.Error("the data changed")
	}
}
