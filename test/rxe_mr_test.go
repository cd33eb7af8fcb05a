//go:build vm

package test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeMemory has the peer write to and read from each kind of memory.
func TestRxeMemory(t *testing.T) {
	rxeFabric(t)
	for name, register := range memoryKinds {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			d := openRxe(t)
			a, _ := d.pair(t, verbs.QPTypeRC, rxeSetup{size: 2 * kindSize})
			mr := register(t, d.pd)
			closeLater(t, mr)
			runtime.GC() // which neither frees nor moves it
			writtenAndRead(t, a, a.mr, mr, kindSize)
		})
	}
}

// TestRxeMemorySizes: from one byte, anywhere in a page, to 64 MiB.
func TestRxeMemorySizes(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, _ := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	memory := must(syscall.Mmap(-1, 0, 3*4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	t.Cleanup(func() { syscall.Munmap(memory) })
	for _, part := range [][2]int{{0, 1}, {4095, 1}, {4095, 2}, {0, 4096}, {1, 4096}, {0, 4097}, {1, 3*4096 - 2}} {
		mr := must(d.pd.RegMR(memory[part[0]:][:part[1]], allAccess))(t)
		writtenAndRead(t, a, a.mr, mr, part[1])
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}
	large := must(d.pd.AllocMR(64<<20, allAccess, nil))(t)
	closeLater(t, large)
	copy(large.Bytes()[64<<20-4:], "tail")
	a.post(verbs.SendWR{WRID: 3, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.mr.SGE(0, 4)}, RemoteAddr: large.Addr() + 64<<20 - 4, RKey: large.RKey()})
	a.sent("3 RDMA_READ success")
	if got := string(a.mr.Bytes()[:4]); got != "tail" {
		t.Errorf("%q", got)
	}
}

// TestRxeFork: while other processes are started, and copies of this one's memory
// with them, the device goes on to use the memory that this one sees, its queues
// included.
func TestRxeFork(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, _ := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	mr := must(d.pd.RegMR(make([]byte, 4096), allAccess))(t)
	closeLater(t, mr)
	start(t, exec.Command("sleep", "1000")) // ends with the test
	for range 3 {
		writtenAndRead(t, a, a.mr, mr, 4096)
	}
}

// TestRxeAccessFlags: which access flags each kernel takes, and what is said of the
// others.
func TestRxeAccessFlags(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	const local = verbs.AccessLocalWrite
	lacks := func(what verbs.Access) string {
		return fmt.Sprintf("the device, or this kernel, has no %v (see DeviceAttr)", what)
	}
	flush, odp, odd := "", "", "the driver takes no "
	if onKernel("6.1") {
		flush, odd = lacks(verbs.AccessFlushGlobal), ""
	}
	if !sinceLinux7() {
		odp = lacks(verbs.AccessOnDemand)
	}
	refused := func(odd string, what verbs.Access) string {
		if odd == "" {
			return ""
		}
		return odd + what.String()
	}
	for access, want := range map[verbs.Access]string{
		0:                                 "",
		local:                             "",
		verbs.AccessRemoteRead:            "",
		allAccess:                         "",
		local | verbs.AccessRemoteAtomic:  "",
		verbs.AccessMWBind:                "",
		verbs.AccessRelaxedOrdering:       "",
		verbs.Access(1 << 29):             "", // optional, and known to none
		d.access():                        "",
		local | verbs.AccessFlushGlobal:   flush,
		local | verbs.AccessOnDemand:      odp,
		local | verbs.AccessHugeTLB:       refused(odd, verbs.AccessHugeTLB),
		local | verbs.AccessZeroBased:     refused(odd, verbs.AccessZeroBased),
		verbs.Access(1 << 10):             lacks(1 << 10),
		local | verbs.Access(1<<31|1<<15): lacks(1<<31 | 1<<15),
	} {
		mr, err := d.pd.AllocMR(100, access, nil)
		if err == nil {
			closeLater(t, mr)
			if want != "" {
				t.Errorf("%v: registered, want %q", access, want)
			}
			continue
		}
		if want == "" || !errors.Is(err, verbs.ErrNotSupported) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", access, err, want)
		}
	}
	mr := must(d.pd.AllocMR(100, local, nil))(t)
	closeLater(t, mr)
	if want := mr.LKey(); mr.RKey() != want && (mr.RKey() != 0 || !onKernel("6.1")) {
		t.Errorf("keys %#x and %#x", mr.LKey(), mr.RKey())
	}
}

// TestRxeMemoryRefused pins what registering says when it can't.
func TestRxeMemoryRefused(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	readOnly := must(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer syscall.Munmap(readOnly)
	noHugeWords, noHuge := withoutHugePages()
	const needsLocal = "create MR on gvrxe0: invalid argument: remote write and remote atomic need AccessLocalWrite too"
	for _, test := range []struct {
		register func() (*uverbs.MR, error)
		is       error
		want     string
	}{
		{func() (*uverbs.MR, error) { return d.pd.RegMR(nil, allAccess) }, syscall.EINVAL,
			"create MR on gvrxe0: invalid argument: the memory is empty"},
		{func() (*uverbs.MR, error) { return d.pd.RegMR(make([]byte, 8), verbs.AccessRemoteWrite) }, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) { return d.pd.RegMR(make([]byte, 8), verbs.AccessRemoteAtomic) }, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) {
			return d.pd.RegMR(make([]byte, 8), verbs.AccessRemoteAtomic|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		}, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) { return d.pd.RegMR(readOnly, verbs.AccessLocalWrite) }, syscall.EFAULT,
			"create MR on gvrxe0: bad address: the memory is not mapped, or not writable although the access flags say so"},
		{func() (*uverbs.MR, error) { return d.pd.AllocMR(8, 0, &uverbs.MROptions{Huge: true}) }, noHuge,
			"allocate memory for MR on gvrxe0: mmap: 2097152 bytes of anonymous memory: " + noHugeWords},
	} {
		_, err := test.register()
		if !errors.Is(err, test.is) || err.Error() != "uverbs: "+test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
	mr, err := d.pd.RegMR(make([]byte, 8), verbs.AccessLocalWrite|verbs.AccessFlushPersistent)
	if err == nil {
		closeLater(t, mr)
	}
	want := "invalid argument: FlushPersistent wants persistent memory"
	if onKernel("6.1") {
		want = "has no FlushPersistent (see DeviceAttr)"
	}
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestRxeRelaxedOrdering moves messages from and to memory that is registered so.
func TestRxeRelaxedOrdering(t *testing.T) {
	for typ, front := range map[verbs.QPType]int{verbs.QPTypeRC: 0, verbs.QPTypeUD: uverbs.GRHSize} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rxeFabric(t)
			noLeak(t)
			a, b := openRxe(t).pair(t, typ, rxeSetup{access: verbs.AccessLocalWrite | verbs.AccessRelaxedOrdering})
			for i := range uint64(100) {
				message := pattern(a.mr.Bytes()[sendFrom:][:1024], byte(i))
				b.postRecv(i, 0, front+1024)
				a.post(a.send(i, sendFrom, 1024))
				a.sent(fmt.Sprintf("%d SEND success", i))
				b.got(fmt.Sprintf("%d RECV success %d", i, front+1024))
				if !bytes.Equal(b.mr.Bytes()[front:][:1024], message) {
					t.Fatalf("message %d: not what was sent", i)
				}
				a, b = b, a
			}
		})
	}
}
