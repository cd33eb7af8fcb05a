package sandbox

import "testing"

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
