//go:build linux

package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUMLRelease checks that the release begins with the kernel's own number, which make puts there, and names the
// configuration, so that another one is built anew.
func TestUMLRelease(t *testing.T) {
	got := umlRelease("6.12.117-1~deb12u1", "CONFIG_A=y\n")
	if want := "6.12.117-1+deb12u1-uml-e7e1b2c0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if other := umlRelease("6.12.117-1~deb12u1", "CONFIG_B=y\n"); other == got {
		t.Errorf("two configurations are both %q", got)
	}
	// The kernel keeps 64 bytes for it.
	if r := umlRelease("6.12.1170-10~deb12u10", umlConfig); len(r) > 63 {
		t.Errorf("%q is too long for uname", r)
	}
}

func TestOpenUML(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	add := func(release string) {
		t.Helper()
		ready := filepath.Join(t.TempDir(), "ready")
		modules := "lib/modules/" + release
		for _, f := range []string{"linux", modules + "/modules.dep", modules + "/" + movableFile} {
			if err := os.MkdirAll(filepath.Join(ready, filepath.Dir(f)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(ready, f), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := publish(cache, ready, UML, release); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(UML); err == nil || !strings.Contains(err.Error(), "fetch -kernel uml-6.12") {
		t.Errorf("an empty cache: %v", err)
	}
	add(umlRelease("6.12.1-1", "CONFIG_OLD=y\n"))
	if _, err := Open(UML); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("another configuration: %v", err)
	}
	release := umlRelease("6.12.1-1", umlConfig)
	add(release)
	k, err := Open(UML)
	if want := (Kernel{Series: UML, Release: release, Dir: filepath.Join(cache, release)}); err != nil || k != want {
		t.Errorf("%+v, %v, want %+v", k, err, want)
	}
	if want := filepath.Join(cache, release, "linux"); k.Image() != want {
		t.Errorf("image %s, want %s", k.Image(), want)
	}
}

func TestMissingOptions(t *testing.T) {
	const want = "# CONFIG_COMMENT=y\nCONFIG_A=y\nCONFIG_B=3\nCONFIG_C=y\n"
	const got = "CONFIG_A=y\nCONFIG_B=2\n# CONFIG_C is not set\nCONFIG_CC=y\n"
	if diff := cmp.Diff([]string{"CONFIG_B=3", "CONFIG_C=y"}, missingOptions(want, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if missing := missingOptions(umlConfig, umlConfig); missing != nil {
		t.Errorf("of itself %v", missing)
	}
}

func TestWidenRegisters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user-offsets.c")
	if err := os.WriteFile(file, []byte("#else\n\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := widenRegisters(file); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "#else\n\tDEFINE_LONGS(HOST_FP_SIZE, 12288);\n" {
		t.Errorf("%q", text)
	}
	if err := widenRegisters(file); err == nil {
		t.Error("source of another shape was taken for this one")
	}
}

func TestProgress(t *testing.T) {
	var log strings.Builder
	p := &progress{log: &log, of: 1400}
	for range 2*progressEvery + 1 {
		p.Write([]byte("  CC      a.o\n"))
	}
	p.Write([]byte("a.c:1: error\n"))
	if got, want := log.String(), "vm: 200 files, of about 1400\nvm: 400 files, of about 1400\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(p.tail) > progressKeep || !strings.HasSuffix(string(p.tail), "a.o\na.c:1: error\n") {
		t.Errorf("the tail has %d bytes and ends %q", len(p.tail), p.tail[max(0, len(p.tail)-20):])
	}
}

// TestICountNeedsQEMU checks that User Mode Linux, whose clock is the host's, does not take ICount.
func TestICountNeedsQEMU(t *testing.T) {
	_, err := Run(t.Context(), Kernel{Series: UML}, Config{ICount: true})
	if err == nil || !strings.Contains(err.Error(), "does not count instructions") {
		t.Errorf("%v", err)
	}
}

// TestQemuCPUs checks that only a caller who asks for it gets a second CPU, and with it a second thread.
func TestQemuCPUs(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, "-smp 1 -accel tcg,thread=single -M"},
		{Config{CPUs: 1}, "-smp 1 -accel tcg,thread=single -M"},
		{Config{CPUs: 2}, "-smp 2 -accel tcg,thread=multi -M"},
		{Config{ICount: true}, "-smp 1 -accel tcg,thread=single -icount shift=0 -M"},
	} {
		if args := strings.Join(qemuArgs(Kernel{Series: "6.12"}, c.config), " "); !strings.HasPrefix(args, c.want) {
			t.Errorf("%+v: %s", c.config, args)
		}
	}
}
