//go:build vm

package rxe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// odp is a device with on-demand paging, or nil after a test that there is none,
// as it has to be before Linux 7.
func odp(t *testing.T) *kit.RxeDevice {
	t.Helper()
	d := kit.OpenRxe(t)
	if d.Attr.ODP.General&verbs.ODPSupport != 0 {
		return d
	}
	if kit.SinceLinux7() {
		t.Errorf("%+v", d.Attr.ODP)
	}
	_, err := d.PD.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil)
	if !errors.Is(err, verbs.ErrNotSupported) || !strings.HasSuffix(err.Error(), "the device or this kernel does not support OnDemand (see DeviceAttr)") {
		t.Errorf("%v", err)
	}
	return nil
}

// fresh is a mapping of which no page was touched yet.
func fresh(t *testing.T, size int) []byte {
	t.Helper()
	b := kit.Must(syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	t.Cleanup(func() { syscall.Munmap(b) })
	return b
}

// onDemand registers such a mapping.
func onDemand(d *kit.RxeDevice, t *testing.T, size int) *uverbs.MR {
	t.Helper()
	mr := kit.Must(d.PD.RegMR(fresh(t, size), (d.Access()|verbs.AccessOnDemand)&^verbs.AccessMWBind))(t)
	kit.CloseLater(t, mr)
	return mr
}

// dropPages has the kernel take the pages of a mapping away. Of a private one the
// next look finds zeros.
func dropPages(t *testing.T, b []byte) {
	t.Helper()
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// pages counts those of a region that are in memory.
func pages(t *testing.T, mr *uverbs.MR) (n int) {
	t.Helper()
	const present = 1 << 63
	f := kit.Must(os.Open("/proc/self/pagemap"))(t)
	defer f.Close()
	entries := make([]uint64, mr.Len()/4096)
	at := io.NewSectionReader(f, int64(mr.Addr()/4096*8), int64(len(entries)*8))
	if err := binary.Read(at, binary.NativeEndian, entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e&present != 0 {
			n++
		}
	}
	return n
}

// odpPair is a connection both ends of which have their memory on demand.
func odpPair(d *kit.RxeDevice, t *testing.T, typ verbs.QPType, s kit.RxeSetup) (a, b *kit.RxeEnd) {
	t.Helper()
	a, b = d.Pair(t, typ, s)
	a.MR, b.MR = onDemand(d, t, kit.MemorySize), onDemand(d, t, kit.MemorySize)
	return a, b
}

// TestRxeODP carries each operation over memory that is not pinned, and whose
// pages are taken away before each.
func TestRxeODP(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := odp(t)
	if d == nil {
		return
	}
	// A kernel with that fault handles this right: a packet from the start of a page.
	size, start := 1024, kit.SendFrom
	if findsOffsets(d, t) {
		size, start = 8192, kit.SendFrom+100
	}
	drop := func(a, b *kit.RxeEnd) {
		t.Helper()
		dropPages(t, a.MR.Bytes())
		dropPages(t, b.MR.Bytes())
	}
	messages := func(t *testing.T, a, b *kit.RxeEnd, post func(id uint64, e *kit.RxeEnd)) {
		t.Helper()
		for i := range uint64(20) {
			drop(a, b)
			want := kit.Pattern(make([]byte, size), byte(i))
			copy(a.MR.Bytes()[start:], want)
			post(i, b)
			a.Post(a.Send(i, start, size))
			a.Sent(fmt.Sprintf("%d SEND success", i))
			b.Got(fmt.Sprintf("%d RECV success %d", i, size))
			if !bytes.Equal(b.MR.Bytes()[:size], want) {
				t.Fatalf("message %d: not what was sent", i)
			}
			a, b = b, a
		}
	}
	t.Run("send", func(t *testing.T) {
		a, b := odpPair(d, t, verbs.QPTypeRC, kit.RxeSetup{})
		messages(t, a, b, func(id uint64, e *kit.RxeEnd) { e.PostRecv(id, 0, size) })
	})
	t.Run("datagram", func(t *testing.T) {
		a, b := odpPair(d, t, verbs.QPTypeUD, kit.RxeSetup{Cap: verbs.QPCap{MaxRecvSGE: 2}})
		// The header goes elsewhere, so that the message begins a page.
		header := kit.Must(d.PD.AllocMR(uverbs.GRHSize, verbs.AccessLocalWrite, nil))(t)
		kit.CloseLater(t, header)
		for i := range uint64(20) {
			drop(a, b)
			if _, err := b.QP.PostRecv([]verbs.RecvWR{{WRID: i, SGL: []verbs.SGE{header.SGE(0, uverbs.GRHSize), b.MR.SGE(0, 1024)}}}); err != nil {
				t.Fatal(err)
			}
			want := kit.Pattern(a.MR.Bytes()[kit.SendFrom:][:1024], byte(i))
			a.Post(a.Send(i, kit.SendFrom, 1024))
			a.Sent(fmt.Sprintf("%d SEND success", i))
			b.Got(fmt.Sprintf("%d RECV success %d", i, uverbs.GRHSize+1024))
			if !bytes.Equal(b.MR.Bytes()[:1024], want) {
				t.Fatalf("message %d: not what was sent", i)
			}
			a, b = b, a
		}
	})
	t.Run("SRQ", func(t *testing.T) {
		srq := kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
		kit.CloseLater(t, srq)
		a, b := odpPair(d, t, verbs.QPTypeRC, kit.RxeSetup{SRQ: srq})
		messages(t, a, b, func(id uint64, e *kit.RxeEnd) {
			if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{e.MR.SGE(0, size)}}}); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("write and read", func(t *testing.T) {
		a, b := odpPair(d, t, verbs.QPTypeRC, kit.RxeSetup{})
		sgl := []verbs.SGE{a.MR.SGE(start, size)}
		for i := range byte(20) {
			drop(a, b)
			want := kit.Pattern(make([]byte, size), i)
			copy(a.MR.Bytes()[start:], want)
			a.Post(a.To(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sgl}))
			a.Sent("1 RDMA_WRITE success")
			if !bytes.Equal(b.MR.Bytes()[:size], want) {
				t.Fatalf("write %d: not what was written", i)
			}
			dropPages(t, a.MR.Bytes())
			a.Post(a.To(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sgl}))
			a.Sent("2 RDMA_READ success")
			if !bytes.Equal(a.MR.Bytes()[start:][:size], want) {
				t.Fatalf("read %d: not what is there", i)
			}
		}
	})
	t.Run("atomics", func(t *testing.T) {
		a, b := odpPair(d, t, verbs.QPTypeRC, kit.RxeSetup{})
		word := func(e *kit.RxeEnd) uint64 { return binary.NativeEndian.Uint64(e.MR.Bytes()) }
		value := binary.NativeEndian.AppendUint64(nil, 99)
		result := []verbs.SGE{a.MR.SGE(0, 8)}
		for _, c := range []struct {
			wr   verbs.SendWR
			want string
			was  uint64 // at the initiator
			is   uint64 // at the responder, whose word was 0
		}{
			{verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 5, SGL: result}, "0 FETCH_ADD success", 0, 5},
			{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 0, Swap: 7, SGL: result}, "0 COMP_SWAP success", 0, 7},
			{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 1, Swap: 7, SGL: result}, "0 COMP_SWAP success", 0, 0},
			{verbs.SendWR{Opcode: verbs.OpAtomicWrite, Inline: value}, "0 ATOMIC_WRITE success", 42, 99},
			{verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Length: 8192, Type: verbs.FlushGlobal}}, "0 FLUSH success", 42, 0},
		} {
			drop(a, b)
			binary.NativeEndian.PutUint64(a.MR.Bytes(), 42)
			c.wr.Flags = verbs.SendSignaled
			a.Post(a.To(c.wr))
			a.Sent(c.want)
			if word(a) != c.was || word(b) != c.is {
				t.Errorf("%v: %d and %d, want %d and %d", c.wr.Opcode, word(a), word(b), c.was, c.is)
			}
		}
	})
}

// TestRxeODPPages checks that registering takes no page; prefetching and using do; and when the kernel took pages away,
// the device uses those that came in their place.
func TestRxeODPPages(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := odp(t)
	if d == nil {
		return
	}
	const size = 1 << 20
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	pinned := pinnedMemory(t)
	mr := onDemand(d, t, size)
	if n, more := pages(t, mr), pinnedMemory(t)-pinned; n != 0 || more != 0 {
		t.Errorf("%d pages in memory, %d kB pinned", n, more)
	}
	if err := d.PD.AdviseMR(verbs.MRPrefetchWrite, true, []verbs.SGE{mr.SGE(0, size/2)}); err != nil {
		t.Error(err)
	}
	if n := pages(t, mr); n != size/2/4096 {
		t.Errorf("%d pages in memory after a prefetch of %d", n, size/2/4096)
	}
	if err := d.PD.AdviseMR(verbs.MRPrefetchNoFault, true, []verbs.SGE{mr.SGE(size/2, size/2)}); err != nil {
		t.Error(err)
	}
	if n := pages(t, mr); n != size/2/4096 {
		t.Errorf("%d pages in memory after a prefetch of those that are", n)
	}
	last := func(op verbs.Opcode, want string) {
		t.Helper()
		a.Post(verbs.SendWR{WRID: 1, Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 8)}, RemoteAddr: mr.Addr() + size - 4096, RKey: mr.RKey()})
		a.Sent(want)
	}
	copy(a.MR.Bytes(), "one word")
	last(verbs.OpRDMAWrite, "1 RDMA_WRITE success")
	if n := pages(t, mr); n != size/2/4096+1 || string(mr.Bytes()[size-4096:][:8]) != "one word" {
		t.Errorf("%d pages, %q", n, mr.Bytes()[size-4096:][:8])
	}
	dropPages(t, mr.Bytes())
	last(verbs.OpRDMARead, "1 RDMA_READ success")
	if got := a.MR.Bytes()[:8]; !bytes.Equal(got, make([]byte, 8)) {
		t.Errorf("read %q out of a page that is gone", got)
	}
	copy(mr.Bytes()[size-4096:][:8], "new page")
	last(verbs.OpRDMARead, "1 RDMA_READ success")
	if got := string(a.MR.Bytes()[:8]); got != "new page" {
		t.Errorf("read %q", got)
	}
}

// TestRxeODPOffset checks that the device also finds addresses within a page.
func TestRxeODPOffset(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	if d := odp(t); d != nil {
		t.Log("it finds the middle of a page:", findsOffsets(d, t))
	}
}

// findsOffsets reports whether this kernel's rxe is free of a fault: it takes each
// address in such a region for the start of the page, and repeats the start of the page
// where the data continues in the next one.
func findsOffsets(d *kit.RxeDevice, t *testing.T) bool {
	t.Helper()
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	mr := onDemand(d, t, 8192)
	copy(a.MR.Bytes(), "0123456789abcdef")
	a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 16)}, RemoteAddr: mr.Addr() + 4088, RKey: mr.RKey()})
	a.Sent("1 RDMA_WRITE success")
	right, wrong := make([]byte, 8192), make([]byte, 8192)
	copy(right[4088:], "0123456789abcdef")
	copy(wrong, "01234567")
	copy(wrong[4096:], "01234567")
	got := mr.Bytes()
	if !bytes.Equal(got, right) && !bytes.Equal(got, wrong) {
		t.Errorf("a third way to be: %q, %q, %q", got[:16], got[4088:4096], got[4096:][:16])
	}
	return bytes.Equal(got, right)
}

// pinnedMemory returns the pinned memory of this process in kB.
func pinnedMemory(t *testing.T) (kB int) {
	t.Helper()
	status := string(kit.Must(os.ReadFile("/proc/self/status"))(t))
	_, after, _ := strings.Cut(status, "\nVmPin:")
	if _, err := fmt.Sscanf(after, "%d kB", &kB); err != nil {
		t.Fatal(err)
	}
	return kB
}

// TestRxeODPNoLimit checks that memory that is not pinned counts against no limit.
func TestRxeODPNoLimit(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	if odp(t) != nil {
		kit.Start(t, kit.Nobody(kit.Child("memory on demand"))).Finish(t)
	}
}

func registerOnDemand([]string) error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		return err
	}
	dev, err := uverbs.Open(kit.RxeLink)
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	if _, err := pd.AllocMR(1<<20, 0, nil); !errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("pinned all the same: %v", err)
	}
	_, err = pd.AllocMR(1<<30, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil)
	return err
}
