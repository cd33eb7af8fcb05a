//go:build vm

package rxe

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

// TestRxeMemory has the peer write to and read from each kind of memory.
func TestRxeMemory(t *testing.T) {
	kit.RxeFabric(t)
	for name, register := range kit.MemoryKinds {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			d := kit.OpenRxe(t)
			a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{Size: 2 * kit.KindSize})
			mr := register(t, d.PD)
			kit.CloseLater(t, mr)
			runtime.GC() // which neither frees nor moves it
			kit.WrittenAndRead(t, a, a.MR, mr, kit.KindSize)
		})
	}
}

// TestRxeMemorySizes registers memory from one byte, anywhere in a page, to 64 MiB.
func TestRxeMemorySizes(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	memory := kit.Must(syscall.Mmap(-1, 0, 3*4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	t.Cleanup(func() { syscall.Munmap(memory) })
	for _, part := range [][2]int{{0, 1}, {4095, 1}, {4095, 2}, {0, 4096}, {1, 4096}, {0, 4097}, {1, 3*4096 - 2}} {
		mr := kit.Must(d.PD.RegMR(memory[part[0]:][:part[1]], kit.AllAccess))(t)
		kit.WrittenAndRead(t, a, a.MR, mr, part[1])
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}
	large := kit.Must(d.PD.AllocMR(64<<20, kit.AllAccess, nil))(t)
	kit.CloseLater(t, large)
	copy(large.Bytes()[64<<20-4:], "tail")
	a.Post(verbs.SendWR{WRID: 3, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 4)}, RemoteAddr: large.Addr() + 64<<20 - 4, RKey: large.RKey()})
	a.Sent("3 RDMA_READ success")
	if got := string(a.MR.Bytes()[:4]); got != "tail" {
		t.Errorf("%q", got)
	}
}

// TestRxeFork checks that while other processes are started, and copies of this one's memory with
// them, the device goes on to use the memory that this one sees, its queues included.
func TestRxeFork(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	mr := kit.Must(d.PD.RegMR(make([]byte, 4096), kit.AllAccess))(t)
	kit.CloseLater(t, mr)
	kit.Start(t, exec.Command("sleep", "1000")) // ends with the test
	for range 3 {
		kit.WrittenAndRead(t, a, a.MR, mr, 4096)
	}
}

// TestRxeAccessFlags checks which access flags each kernel accepts, and the errors for the
// others.
func TestRxeAccessFlags(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	const local = verbs.AccessLocalWrite
	lacks := func(what verbs.Access) string {
		return fmt.Sprintf("the device or this kernel does not support %v (see DeviceAttr)", what)
	}
	flush, odp, odd := "", "", "the driver does not support "
	if kit.OnKernel("6.1") {
		flush, odd = lacks(verbs.AccessFlushGlobal), ""
	}
	if !kit.SinceLinux7() {
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
		kit.AllAccess:                     "",
		local | verbs.AccessRemoteAtomic:  "",
		verbs.AccessMWBind:                "",
		verbs.AccessRelaxedOrdering:       "",
		verbs.Access(1 << 29):             "", // optional, and known to none
		d.Access():                        "",
		local | verbs.AccessFlushGlobal:   flush,
		local | verbs.AccessOnDemand:      odp,
		local | verbs.AccessHugeTLB:       refused(odd, verbs.AccessHugeTLB),
		local | verbs.AccessZeroBased:     refused(odd, verbs.AccessZeroBased),
		verbs.Access(1 << 10):             lacks(1 << 10),
		local | verbs.Access(1<<31|1<<15): lacks(1<<31 | 1<<15),
	} {
		mr, err := d.PD.AllocMR(100, access, nil)
		if err == nil {
			kit.CloseLater(t, mr)
			if want != "" {
				t.Errorf("%v: registered, want %q", access, want)
			}
			continue
		}
		if want == "" || !errors.Is(err, verbs.ErrNotSupported) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", access, err, want)
		}
	}
	mr := kit.Must(d.PD.AllocMR(100, local, nil))(t)
	kit.CloseLater(t, mr)
	if want := mr.LKey(); mr.RKey() != want && (mr.RKey() != 0 || !kit.OnKernel("6.1")) {
		t.Errorf("keys %#x and %#x", mr.LKey(), mr.RKey())
	}
}

// TestRxeMemoryRefused pins what registering says when it can't.
func TestRxeMemoryRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	readOnly := kit.Must(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer syscall.Munmap(readOnly)
	noHugeWords, noHuge := kit.WithoutHugePages()
	const needsLocal = "create MR on gvrxe0: invalid argument: remote write and remote atomic need AccessLocalWrite too"
	for _, test := range []struct {
		register func() (*uverbs.MR, error)
		is       error
		want     string
	}{
		{func() (*uverbs.MR, error) { return d.PD.RegMR(nil, kit.AllAccess) }, syscall.EINVAL,
			"create MR on gvrxe0: invalid argument: the memory is empty"},
		{func() (*uverbs.MR, error) { return d.PD.RegMR(make([]byte, 8), verbs.AccessRemoteWrite) }, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) { return d.PD.RegMR(make([]byte, 8), verbs.AccessRemoteAtomic) }, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) {
			return d.PD.RegMR(make([]byte, 8), verbs.AccessRemoteAtomic|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		}, syscall.EINVAL, needsLocal},
		{func() (*uverbs.MR, error) { return d.PD.RegMR(readOnly, verbs.AccessLocalWrite) }, syscall.EFAULT,
			"create MR on gvrxe0: bad address: the memory is not mapped, or not writable although the access flags say so, or a shared mapping of a file on disk: Linux pins pages of those for reading only (use a private mapping, tmpfs or hugetlbfs)"},
		{func() (*uverbs.MR, error) { return d.PD.AllocMR(8, 0, &uverbs.MROptions{Huge: true}) }, noHuge,
			"allocate memory for MR on gvrxe0: map 2097152 bytes of anonymous memory: " + noHugeWords},
	} {
		_, err := test.register()
		if !errors.Is(err, test.is) || err.Error() != test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
	mr, err := d.PD.RegMR(make([]byte, 8), verbs.AccessLocalWrite|verbs.AccessFlushPersistent)
	if err == nil {
		kit.CloseLater(t, mr)
	}
	want := "invalid argument: FlushPersistent needs persistent memory"
	if kit.OnKernel("6.1") {
		want = "does not support FlushPersistent (see DeviceAttr)"
	}
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestRxeRelaxedOrdering moves messages from and to memory that is registered so.
func TestRxeRelaxedOrdering(t *testing.T) {
	for typ, front := range map[verbs.QPType]int{verbs.QPTypeRC: 0, verbs.QPTypeUD: uverbs.GRHSize} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			kit.RxeFabric(t)
			kit.NoLeak(t)
			a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{Access: verbs.AccessLocalWrite | verbs.AccessRelaxedOrdering})
			for i := range uint64(100) {
				message := kit.Pattern(a.MR.Bytes()[kit.SendFrom:][:1024], byte(i))
				b.PostRecv(i, 0, front+1024)
				a.Post(a.Send(i, kit.SendFrom, 1024))
				a.Sent(fmt.Sprintf("%d SEND success", i))
				b.Got(fmt.Sprintf("%d RECV success %d", i, front+1024))
				if !bytes.Equal(b.MR.Bytes()[front:][:1024], message) {
					t.Fatalf("message %d: not what was sent", i)
				}
				a, b = b, a
			}
		})
	}
}

// attempt posts a request on a new peer and returns how it ended.
func attemptFromNewPeer(d *kit.RxeDevice, t *testing.T, op verbs.Opcode, addr uint64, key uint32) verbs.Status {
	t.Helper()
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	return attempt(a, op, addr, key)
}

// attempt does so on a connection, which an error ends.
func attempt(e *kit.RxeEnd, op verbs.Opcode, addr uint64, key uint32) verbs.Status {
	e.T.Helper()
	e.Post(verbs.SendWR{WRID: 1, Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.MR.SGE(0, 8)}, RemoteAddr: addr, RKey: key})
	return e.Next(e.SendCQ).Status
}

// outcomes are how a write and a read of the start of a region end.
func outcomes(d *kit.RxeDevice, t *testing.T, mr *uverbs.MR) [2]verbs.Status {
	t.Helper()
	return [2]verbs.Status{attemptFromNewPeer(d, t, verbs.OpRDMAWrite, mr.Addr(), mr.RKey()), attemptFromNewPeer(d, t, verbs.OpRDMARead, mr.Addr(), mr.RKey())}
}

const (
	allowed = verbs.StatusSuccess
	denied  = verbs.StatusRemAccessErr
)

func access(a verbs.Access) *verbs.Access { return &a }

// TestRxeRereg changes peers' access to a region, and which QPs belong to
// it, in place. Linux 6.1's rxe can't.
func TestRxeRereg(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	mr := kit.Must(d.PD.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil))(t)
	kit.CloseLater(t, mr)
	change := func(o *uverbs.ReregOptions) bool {
		t.Helper()
		err := mr.Rereg(o)
		if kit.OnKernel("6.1") {
			if !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("%v", err)
			}
			return false
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	become := func(want [2]verbs.Status) {
		t.Helper()
		if got := outcomes(d, t, mr); got != want {
			t.Errorf("write and read end with %v, want %v", got, want)
		}
	}
	before := [2]verbs.Status{denied, allowed}
	become(before)
	if change(&uverbs.ReregOptions{Access: access(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)}) {
		before = [2]verbs.Status{allowed, denied}
	}
	become(before)

	other := kit.Must(d.AllocPD())(t)
	kit.CloseLater(t, other)
	if change(&uverbs.ReregOptions{PD: other}) {
		if mr.PD() != other {
			t.Error("not in the other PD")
		}
		if err := other.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Errorf("%v", err)
		}
		become([2]verbs.Status{denied, denied})
		change(&uverbs.ReregOptions{PD: d.PD, Access: access(kit.AllAccess)})
		before = [2]verbs.Status{allowed, allowed}
	}
	become(before)
	// A refused call changes nothing.
	for _, o := range []*uverbs.ReregOptions{{}, {Access: access(verbs.AccessRemoteWrite)}, {Access: access(verbs.AccessHugeTLB | verbs.AccessLocalWrite)}} {
		err := mr.Rereg(o)
		if err == nil || !kit.OnKernel("6.1") && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	become(before)
	if err := mr.Rereg(&uverbs.ReregOptions{}); !kit.OnKernel("6.1") && !strings.HasSuffix(err.Error(), "invalid argument: neither PD nor Access changes") {
		t.Error(err)
	}
}

// TestRxePinnedMemory checks that the device keeps the pages of a region whose memory is unmapped.
func TestRxePinnedMemory(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	const size, readWrite = 4096, syscall.PROT_READ | syscall.PROT_WRITE
	file := kit.Must(os.CreateTemp("/dev/shm", ""))(t)
	defer os.Remove(file.Name())
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string]int{"private": syscall.MAP_PRIVATE, "shared": syscall.MAP_SHARED} {
		b := kit.Must(syscall.Mmap(int(file.Fd()), 0, size, readWrite, flags))(t)
		copy(b, "before")
		mr := kit.Must(d.PD.RegMR(b, kit.AllAccess))(t)
		if err := syscall.Munmap(b); err != nil {
			t.Fatal(err)
		}
		a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 6)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		a.Sent("1 RDMA_READ success")
		if got := string(a.MR.Bytes()[:6]); got != "before" {
			t.Errorf("%s: %q", name, got)
		}
		copy(a.MR.Bytes(), "after ")
		a.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 6)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		a.Sent("2 RDMA_WRITE success")
		if got := kit.Must(os.ReadFile(file.Name()))(t); name == "shared" && string(got[:6]) != "after " {
			t.Errorf("the file has %q", got[:6])
		}
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}
}
