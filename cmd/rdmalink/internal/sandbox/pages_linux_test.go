package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// TestMemory checks which memory devices register, and what becomes of a region whose memory is unmapped, against
// answers of Linux 6.12. The memory that nothing can hold is an error, where Linux has pinned it.
func TestMemory(t *testing.T) {
	program := compiled(t, "../../../../test/sandbox/memory.c")
	table, err := os.ReadFile("../../../../test/sandbox/memory.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"rxe", "siw", "erdma", "mlx5"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			out, err := inside(t, []string{"-d", kind}, program, kind, file)
			if err != nil {
				t.Error(err)
			}
			if got := expected(t, string(table), kind, file); out != got {
				t.Errorf("%s\nwant\n%s", out, got)
			}
		})
	}
}

// expected returns the lines for a kind of device.
func expected(t *testing.T, want, kind, file string) string {
	t.Helper()
	var lines strings.Builder
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(file), &st); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(want) {
		name, _, _ := strings.Cut(line, ": ")
		switch {
		case kind == "siw" || kind == "erdma":
			if strings.HasSuffix(name, "READ") || strings.HasSuffix(name, "WRITE") {
				continue
			}
		case name == "unmapped private memory, READ":
			line = name + ": error\n"
		case name == "unmapped private memory, WRITE":
			continue
		}
		switch {
		case name == "beyond the limit, with CAP_IPC_LOCK" && os.Geteuid() != 0:
			continue
		case name == "shared file of a disk" && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC):
			line = name + ": ok\n"
		}
		lines.WriteString(line)
	}
	return lines.String()
}

// TestPin checks that shared pages of a region stay reachable at their addresses after other memory has taken their
// place, whichever way their file is found, and that private pages are reached by their address.
func TestPin(t *testing.T) {
	page := os.Getpagesize()
	for name, create := range map[string]func() (*os.File, error){
		"by a descriptor": func() (*os.File, error) {
			fd, err := unix.MemfdCreate("pin", unix.MFD_CLOEXEC)
			return os.NewFile(uintptr(fd), "pin"), err
		},
		"by its path": func() (*os.File, error) { return os.CreateTemp("/dev/shm", "") },
	} {
		r, err := mmap.Anonymous(3*page, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		f, err := create()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Name() != "pin" {
			defer os.Remove(f.Name())
		}
		middle := func(flags, fd int) {
			if err := remap(r.Addr()+uint64(page), page, flags, fd); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Truncate(int64(page)); err != nil {
			t.Fatal(err)
		}
		middle(unix.MAP_SHARED, int(f.Fd()))
		p := processOf(t, os.Getpid())
		m, unpin, err := userMemory{p, "/none/"}.Pin(r.Addr()+5, uint64(3*page-10), true)
		if err != nil || len(m.(pinned).pieces) != 1 {
			t.Fatalf("%s: %v, %+v", name, err, m)
		}
		if name == "by its path" {
			f.Close()
		}
		middle(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1)
		at, text, got := r.Addr()+uint64(page)-4, "before and in the middle", make([]byte, 24)
		if err := m.Write(at, []byte(text)); err != nil || string(r.Bytes()[page-4:][:8]) != "befo\x00\x00\x00\x00" {
			t.Errorf("%s: %v, %q", name, err, r.Bytes()[page-4:][:8])
		}
		if err := m.Read(at, got); err != nil || string(got) != text {
			t.Errorf("%s: %v, %q", name, err, got)
		}
		if err := m.Store64(at+12, 42); err != nil {
			t.Error(err)
		}
		if v, err := m.Load64(at + 12); err != nil || v != 42 {
			t.Errorf("%s: %d, %v", name, v, err)
		}
		unpin()
		if err := m.Read(at, got); err != unix.EFAULT {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
	if n := held.Load(); n != 0 {
		t.Errorf("%d mappings are held", n)
	}
}

// TestPinMany checks a region of more mappings than a sandbox may hold.
func TestPinMany(t *testing.T) {
	page := os.Getpagesize()
	const n = mostHeld + 10
	r, err := mmap.Anonymous(n*page, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd, err := unix.MemfdCreate("many", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(page)); err != nil {
		t.Fatal(err)
	}
	for i := range n { // all are the same page, so the kernel joins none
		if err := remap(r.Addr()+uint64(i*page), page, unix.MAP_SHARED, fd); err != nil {
			t.Fatal(err)
		}
	}
	m, unpin, err := userMemory{processOf(t, os.Getpid()), "/none/"}.Pin(r.Addr(), uint64(n*page), true)
	if err != nil || len(m.(pinned).pieces) != mostHeld {
		t.Fatalf("%v, %d", err, len(m.(pinned).pieces))
	}
	defer unpin()
	if err := m.Write(r.Addr()+uint64((n-1)*page), []byte("the last")); err != nil || string(r.Bytes()[:8]) != "the last" {
		t.Errorf("%v, %q", err, r.Bytes()[:8])
	}
}

// remap replaces the mapping at an address.
func remap(addr uint64, length, flags, fd int) error {
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, uintptr(flags|unix.MAP_FIXED), uintptr(fd), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
