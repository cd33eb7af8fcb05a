package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

func TestParseMapping(t *testing.T) {
	const line = "7fa7038b5000-7fa7038b6000 rw-s 00002000 00:1b 49580                      /dev/shm/rdmalink-sandbox-1/8 (deleted)"
	want := mapping{0x7fa7038b5000, 0x7fa7038b6000, "rw-s", 0x2000, 49580, "/dev/shm/rdmalink-sandbox-1/8 (deleted)"}
	if got, ok := parseMapping(line); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := parseMapping("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]"); !ok || got.path != "" {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := parseMapping("nonsense"); ok {
		t.Errorf("%+v", got)
	}
}

// TestQueryMapping checks that the kernel's reply for a mapping equals its line. Older kernels
// have no such request; then only the lines are read.
func TestQueryMapping(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := os.Getpagesize()
	r, err := mmap.Map(int(file.Fd()), int64(page), page, mmap.ProtRead)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	want, ok := findMapping(maps, r.Addr()+5)
	if !ok || want.path != file.Name() || want.offset != int64(page) {
		t.Errorf("%+v, %v", want, ok)
	}
	want.mode = ""
	if got, err := queryMapping(maps, r.Addr()+5); err != unix.ENOTTY && (err != nil || got != want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := queryMapping(maps, 0); err != unix.ENOTTY && err != unix.ENOENT {
		t.Errorf("%+v, %v", got, err)
	}
}
