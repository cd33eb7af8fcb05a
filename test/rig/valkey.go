//go:build linux

package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// valkeySeries is the series of Valkey that the tests run, as Debian's versions begin, and valkeySuite the suite that
// has its source. Debian 12 has no Valkey, and Debian builds it without RDMA.
const (
	valkeySeries = "9.1."
	valkeySuite  = "sid"
)

// valkeyPrograms are what is kept.
var valkeyPrograms = []string{"valkey-server", "valkey-cli", "valkey-benchmark"}

// InstallValkey copies the programs of Valkey to a directory. If they are not in the cache, it builds Valkey with RDMA
// from Debian's source package, which takes four minutes.
func InstallValkey(ctx context.Context, log io.Writer, to string) error {
	from, err := fetchValkey(ctx, log)
	if err != nil {
		return err
	}
	for _, program := range valkeyPrograms {
		if err := command(ctx, log, "", "install", "-D", "-t", to, filepath.Join(from, program)); err != nil {
			return err
		}
	}
	return nil
}

// fetchValkey returns the directory of the programs in the cache. Programs that are there stay.
func fetchValkey(ctx context.Context, log io.Writer) (dir string, err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lock(cache)
	if err != nil {
		return "", err
	}
	defer unlock()
	const name = "valkey"
	dir = filepath.Join(cache, name)
	if _, err := os.Stat(filepath.Join(dir, valkeyPrograms[0])); err == nil {
		return dir, nil
	}
	if err := Install(ctx, log, "make", "gcc", "g++", "libc6-dev", "librdmacm-dev", "libibverbs-dev"); err != nil {
		return "", fmt.Errorf("set up the build of valkey: %w", err)
	}
	start := time.Now()
	tmp, err := os.MkdirTemp(cache, "valkey-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	version, err := downloadValkey(ctx, log, tmp)
	if err != nil {
		return "", fmt.Errorf("fetch the source of valkey: %w", err)
	}
	ready := filepath.Join(tmp, "ready")
	if err := buildValkey(ctx, log, tmp, ready); err != nil {
		return "", fmt.Errorf("build valkey %s: %w", version, err)
	}
	if err := publish(cache, ready, name, name+"-"+version); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "vm: valkey %s: ready after %s\n", version, time.Since(start).Round(time.Second))
	return dir, nil
}

// downloadValkey leaves the source in tmp. apt checks it against the signature of the suite.
func downloadValkey(ctx context.Context, log io.Writer, tmp string) (version string, err error) {
	a, err := openSources(ctx, log, tmp, valkeySuite)
	if err != nil {
		return "", err
	}
	text, err := output(ctx, a.cache("showsrc", "--only-source", "valkey")...)
	if err != nil {
		return "", err
	}
	if version, err = valkeyVersion(text); err != nil {
		return "", err
	}
	return version, command(ctx, log, tmp, a.get("source", "--download-only", "--tar-only", "valkey="+version)...)
}

// valkeyVersion is the newest version of the series in the output of apt-cache showsrc.
func valkeyVersion(text string) (string, error) {
	best, has := "", "nothing"
	for line := range strings.Lines(text) {
		v, ok := strings.CutPrefix(strings.TrimSpace(line), "Version: ")
		if !ok {
			continue
		}
		if has = v; strings.HasPrefix(v, valkeySeries) && (best == "" || newer(v, best)) {
			best = v
		}
	}
	if best == "" {
		return "", fmt.Errorf("%s has moved on to %s: name a newer series in test/rig/valkey.go", valkeySuite, has)
	}
	return best, nil
}

// buildValkey leaves the programs in ready.
func buildValkey(ctx context.Context, log io.Writer, tmp, ready string) error {
	archives, err := filepath.Glob(filepath.Join(tmp, "valkey_*.orig.tar.*"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("%d archives, expected one: %w", len(archives), err)
	}
	source := filepath.Join(tmp, "source")
	for _, d := range []string{source, ready} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := command(ctx, log, tmp, "tar", "-x", "-f", archives[0], "-C", source, "--strip-components=1"); err != nil {
		return err
	}
	fmt.Fprintln(log, "vm: building valkey, about four minutes on two CPUs")
	var said bytes.Buffer
	words := append([]string{"make", "-C", filepath.Join(source, "src"), "-j", strconv.Itoa(runtime.NumCPU()), "BUILD_RDMA=yes", "MALLOC=libc"}, valkeyPrograms...)
	if err := command(ctx, &said, "", words...); err != nil {
		lines := strings.SplitAfter(said.String(), "\n")
		return fmt.Errorf("%w\nthe end of what make said:\n%s", err, strings.Join(lines[max(0, len(lines)-30):], ""))
	}
	for _, program := range valkeyPrograms {
		if err := command(ctx, log, "", "strip", "-o", filepath.Join(ready, program), filepath.Join(source, "src", program)); err != nil {
			return err
		}
	}
	return nil
}
