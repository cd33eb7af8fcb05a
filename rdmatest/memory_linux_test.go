package rdmatest_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestReadOnlyMemory checks that no device registers memory that it could not write as it should.
func TestReadOnlyMemory(t *testing.T) {
	file, path := filepath.Join(t.TempDir(), "file"), "/dev/shm"
	if err := os.WriteFile(file, make([]byte, memory), 0o600); err != nil {
		t.Fatal(err)
	}
	f := must(os.OpenFile(file, os.O_RDWR, 0))(t)
	defer f.Close()
	inMemory := must(os.CreateTemp(path, ""))(t)
	defer os.Remove(inMemory.Name())
	defer inMemory.Close()
	if err := inMemory.Truncate(memory); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(file, &fs); err != nil {
		t.Fatal(err)
	}
	const private, shared = unix.MAP_PRIVATE, unix.MAP_SHARED
	onDisk := error(syscall.EFAULT)
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		onDisk = nil
	}
	for _, kind := range rdmatest.Kinds {
		dev := closed(t, must(uverbs.Open(rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}).Host(0).Device(0).Name()))(t))
		pd := closed(t, must(dev.AllocPD())(t))
		for _, c := range []struct {
			name            string
			fd, prot, flags int
			access          verbs.Access
			want            error
		}{
			{"read-only, to read", -1, unix.PROT_READ, private | unix.MAP_ANON, verbs.AccessRemoteRead, nil},
			{"read-only", -1, unix.PROT_READ, private | unix.MAP_ANON, verbs.AccessLocalWrite, syscall.EFAULT},
			{"read-only shared", -1, unix.PROT_READ, shared | unix.MAP_ANON, verbs.AccessLocalWrite, syscall.EFAULT},
			{"shared", -1, unix.PROT_READ | unix.PROT_WRITE, shared | unix.MAP_ANON, verbs.AccessLocalWrite, nil},
			{"private file", int(f.Fd()), unix.PROT_READ | unix.PROT_WRITE, private, verbs.AccessLocalWrite, nil},
			{"read-only private file", int(f.Fd()), unix.PROT_READ, private, verbs.AccessLocalWrite, syscall.EFAULT},
			{"shared file, to read", int(f.Fd()), unix.PROT_READ | unix.PROT_WRITE, shared, verbs.AccessRemoteRead, nil},
			{"read-only shared file", int(f.Fd()), unix.PROT_READ, shared, verbs.AccessLocalWrite, syscall.EFAULT},
			{"shared file", int(f.Fd()), unix.PROT_READ | unix.PROT_WRITE, shared, verbs.AccessLocalWrite, onDisk},
			{"shared file in memory", int(inMemory.Fd()), unix.PROT_READ | unix.PROT_WRITE, shared, verbs.AccessLocalWrite, nil},
		} {
			b := must(unix.Mmap(c.fd, 0, memory, c.prot, c.flags))(t)
			mr, err := pd.RegMR(b, c.access)
			if !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("%v: %s: %v, want %v", kind, c.name, err, c.want)
			}
			if err == nil {
				if err := mr.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := unix.Munmap(b); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMemoryThatVanishes checks that an access to memory that the program has protected, unmapped or
// cut short fails, and ends neither the test nor with success.
func TestMemoryThatVanishes(t *testing.T) {
	for name, vanish := range map[string]func(t *testing.T, b []byte, f *os.File){
		"protected": func(t *testing.T, b []byte, _ *os.File) {
			if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
				t.Error(err)
			}
		},
		"unmapped": func(t *testing.T, b []byte, _ *os.File) {
			if err := unix.Munmap(b); err != nil {
				t.Error(err)
			}
		},
		"cut short": func(t *testing.T, _ []byte, f *os.File) {
			if err := f.Truncate(0); err != nil {
				t.Error(err)
			}
		},
	} {
		if name == "cut short" && os.Getenv("GOVERBS_QEMU_USER") != "" {
			continue // qemu-user delivers SIGBUS with the address of the thread's last SIGSEGV, or 0
		}
		for _, op := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpFetchAdd, verbs.OpCompareSwap, verbs.OpSend} {
			for kind, local := range map[rdmatest.Kind]string{rdmatest.RXE: "1 work request flushed; ERR", rdmatest.MLX5: "1 local protection error; ERR"} {
				t.Run(name+" "+op.String()+" "+kind.String(), func(t *testing.T) {
					a, b := two(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), verbs.QPTypeRC, all)
					f := must(os.CreateTemp("/dev/shm", ""))(t)
					defer os.Remove(f.Name())
					defer f.Close()
					if err := f.Truncate(memory); err != nil {
						t.Fatal(err)
					}
					bytes := must(unix.Mmap(int(f.Fd()), 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
					wr, pd, want := a.to(b, op, 8), b.pd, "1 remote access error; ERR"
					if op == verbs.OpSend {
						pd, want = a.pd, local
					}
					mr := closed(t, must(pd.RegMR(bytes, all&^verbs.AccessMWBind))(t))
					if op == verbs.OpSend {
						wr.SGL = []verbs.SGE{mr.SGE(0, recvSize)}
					} else {
						wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
					}
					vanish(t, bytes, f)
					a.post(wr)
					if got := a.story(); got != want {
						t.Errorf("%q, want %q", got, want)
					}
					if name != "unmapped" {
						_ = unix.Munmap(bytes)
					}
				})
			}
		}
	}
}

// TestRegMRAtElsewhere checks that peers name memory by the addresses that a region was registered
// for, and windows do too.
func TestRegMRAtElsewhere(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		a, b := two(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), verbs.QPTypeRC, all)
		pages := must(mmap.Anonymous(memory, nil))(t)
		defer pages.Close()
		const iova = 1 << 40
		first := closed(t, must(b.pd.RegMRAt(pages.Bytes(), iova, all))(t))
		second := closed(t, must(b.pd.RegMRAt(pages.Bytes(), 0, all))(t))
		copy(a.mr.Bytes()[sendFrom:], "written")
		for at, mr := range map[int]*uverbs.MR{5: first, 500: second} {
			wr := a.to(b, verbs.OpRDMAWrite, 7)
			wr.RemoteAddr, wr.RKey = mr.Addr()+uint64(at), mr.RKey()
			a.post(wr)
			if got := outcome(a.next()); got != "1 RDMA_WRITE success" || string(pages.Bytes()[at:][:7]) != "written" {
				t.Errorf("%v: %s, %q", kind, got, pages.Bytes()[at:][:7])
			}
		}
		wr := a.to(b, verbs.OpRDMAWrite, 7)
		wr.RemoteAddr, wr.RKey = pages.Addr(), first.RKey()
		a.post(wr)
		if got := outcome(a.next()); got != "1 remote access error" {
			t.Errorf("%v: the memory's own address: %s", kind, got)
		}
	}
}
