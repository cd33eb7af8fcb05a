package procmaps

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

func TestParse(t *testing.T) {
	const line = "7fa7038b5000-7fa7038b6000 rw-s 00002000 00:1b 49580                      /dev/shm/rdmalink-sandbox-1/8 (deleted)"
	want := Mapping{0x7fa7038b5000, 0x7fa7038b6000, true, true, true, 0x2000, 0x1b, 49580, "/dev/shm/rdmalink-sandbox-1/8 (deleted)"}
	if got, ok := parse(line); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]"); !ok || got.Path != "" || got.Readable || got.Shared {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, line := range []string{"nonsense", "1-2 r 0 0:0 0"} {
		if got, ok := parse(line); ok {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestQuery checks that the kernel's reply for a mapping equals its line. Older kernels have no such request; then
// only the lines are read.
func TestQuery(t *testing.T) {
	page := os.Getpagesize()
	r, path := mapped(t, mmap.ProtRead)
	maps := open(t, "/proc/self/maps")
	want, err := scan(bufio.NewScanner(maps), r.Addr()+5)
	if err != nil || want.Path != path || want.Offset != int64(page) || want.Writable || !want.Shared {
		t.Errorf("%+v, %v", want, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || want.Inode != st.Ino {
		t.Errorf("%+v, %v, want inode %d", want, err, st.Ino)
	}
	if got, err := query(maps, r.Addr()+5); !isOld(err) && (err != nil || got != want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := query(maps, 0); !isOld(err) && err != unix.ENOENT {
		t.Errorf("%+v, %v", got, err)
	}
}

func isOld(err error) bool { return err == unix.ENOTTY || err == unix.ENOSYS }

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// mapped maps the second page of a file.
func mapped(t *testing.T, prot mmap.Prot) (r *mmap.Region, path string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := os.Getpagesize()
	if r, err = mmap.Map(int(file.Fd()), int64(page), page, prot); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, file.Name()
}

// TestRange checks that mappings are found up to a gap, by lines as by requests.
func TestRange(t *testing.T) {
	const lines = "1000-2000 rw-p 00000000 00:00 0\n2000-5000 r--p 00000000 00:00 0\n6000-7000 rw-p 00000000 00:00 0\n"
	path := filepath.Join(t.TempDir(), "maps")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64][]uint64{0: nil, 0x1800: {0x1000, 0x2000}, 0x5000: nil, 0x6800: {0x6000}, 0x7000: nil} {
		var got []uint64
		for m := range Range(open(t, path), addr, 0x8000) {
			got = append(got, m.From)
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %#x: %#x, want %#x", addr, got, want)
		}
	}
	if m, ok := Find(open(t, path), 0x2000); !ok || m.From != 0x2000 {
		t.Errorf("%+v, %v", m, ok)
	}
}

// TestPinnable checks check_vma_flags of Linux 6.12.
func TestPinnable(t *testing.T) {
	const mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:30 / /tmp rw shared:1 - tmpfs tmpfs rw\n23 21 0:31 / /home rw - nfs4 server:/home rw\n"
	path := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(path, []byte(mounts), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m           Mapping
		read, write bool
	}{
		{Mapping{Readable: true, Writable: true}, true, true},
		{Mapping{Readable: true}, true, false},
		{Mapping{Writable: true}, false, true},
		{Mapping{}, false, false},
		{Mapping{Readable: true, Writable: true, Dev: unix.Mkdev(8, 1), Inode: 5}, true, true},                // private
		{Mapping{Readable: true, Writable: true, Shared: true}, true, true},                                   // of no file
		{Mapping{Readable: true, Writable: true, Shared: true, Dev: unix.Mkdev(8, 1), Inode: 5}, true, false}, // ext4
		{Mapping{Readable: true, Shared: true, Dev: unix.Mkdev(8, 1), Inode: 5}, true, false},                 // read-only
		{Mapping{Readable: true, Writable: true, Shared: true, Dev: unix.Mkdev(8, 2), Inode: 5}, true, false}, // unmounted
		{Mapping{Readable: true, Writable: true, Shared: true, Dev: unix.Mkdev(0, 30), Inode: 5}, true, true}, // tmpfs
		{Mapping{Readable: true, Writable: true, Shared: true, Dev: unix.Mkdev(0, 31), Inode: 5}, true, false},
		{Mapping{Readable: true, Writable: true, Shared: true, Dev: unix.Mkdev(0, 1), Inode: 5}, true, true}, // memfd
	} {
		mounts := func() (*os.File, error) { return os.Open(path) }
		if read, write := c.m.Pinnable(false, mounts), c.m.Pinnable(true, mounts); read != c.read || write != c.write {
			t.Errorf("%+v: read %v, write %v", c.m, read, write)
		}
	}
}
