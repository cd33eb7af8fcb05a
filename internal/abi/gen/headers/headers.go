// Package headers finds the kernel's RDMA uapi headers for the generator and for the layout test, and fetches them from
// Debian.
package headers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Series is the kernel whose headers are generated from. It is the newest one of Debian 12; its structs are those of
// 6.1, with more ids.
const Series = "6.12"

// Newest is the kernel that some headers are from: those of interfaces that only grow, whose ids and structs older
// kernels have the beginning of.
const Newest = "7.3"

// Growing are these headers: NETLINK_RDMA, rdma_cm with the records it hands out, and EFA's private bytes,
// whose reserved ones get names.
var Growing = []string{"rdma_netlink.h", "rdma_user_cm.h", "ib_user_sa.h", "efa-abi.h"}

// IDs is the header of uverbs' objects, methods and attributes. It has nothing but ids, and these too only grow. It
// stands in VerbsDir.
const IDs = "ib_user_ioctl_cmds.h"

// SeriesOf says which kernel a header is from.
func SeriesOf(header string) string {
	if header == IDs || slices.Contains(Growing, header) {
		return Newest
	}
	return Series
}

// ErrMissing is returned by Dir where no headers are at hand.
var ErrMissing = errors.New("no RDMA uapi headers of Linux " + Series)

// Dir returns the include directory in the user's cache that holds rdma/, without touching the network. The newest
// kernel's stands beside it.
func Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "goverbs", "uapi-"+Series)
	if _, err := os.Stat(filepath.Join(dir, "rdma", enumsFile)); err != nil {
		return dir, fmt.Errorf("%w in %s: run `go run ./internal/abi/gen -fetch`", ErrMissing, dir)
	}
	wanted := []string{filepath.Join(VerbsDir(dir), IDs)}
	for _, header := range Growing {
		wanted = append(wanted, filepath.Join(newest(dir), "rdma", header))
	}
	for _, path := range wanted {
		if _, err := os.Stat(path); err != nil {
			return dir, fmt.Errorf("no %s of Linux %s: %w: run `go run ./test/cmd/vm headers`", filepath.Base(path), Newest, err)
		}
	}
	return dir, nil
}

// newest returns the include directory of the newest kernel, beside that of Series.
func newest(include string) string { return filepath.Join(filepath.Dir(include), "headers-"+Newest) }

// VerbsDir returns the directory of the newest kernel's headers that have the ids of verbs. No struct is
// taken from them, because the verbs' structs are those of Series. They must be included without "rdma/",
// and before headers that include those of Series.
func VerbsDir(include string) string {
	return filepath.Join(filepath.Dir(include), "headers-"+Newest, "verbs")
}

// Fetch puts the headers of Debian's linux-headers package where Dir looks for them, unless they are there. The test
// rig fetches the newest.
func Fetch() (string, error) {
	dir, err := Dir()
	if !errors.Is(err, ErrMissing) {
		return dir, err
	}
	tmp, err := os.MkdirTemp("", "goverbs-uapi")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	from, err := unpack(tmp)
	if err != nil {
		return "", err
	}
	text, err := enums(filepath.Join(from, "rdma"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.CopyFS(filepath.Join(dir, "rdma"), os.DirFS(filepath.Join(from, "uapi", "rdma"))); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "rdma", enumsFile), text, 0o644)
}

// CText returns the C part of types.go.in.
func CText(types string) string {
	_, rest, _ := strings.Cut(types, "/*")
	text, _, _ := strings.Cut(rest, "*/")
	return text
}

// Flags are given to every C compiler. Plain char differs between amd64 and arm64 unless it is fixed.
func Flags(include string) []string {
	return []string{"-I", newest(include), "-I", include, "-I", VerbsDir(include), "-funsigned-char"}
}

// unpack downloads the newest headers package of the series into tmp and returns its include directory.
func unpack(tmp string) (string, error) {
	pkg, err := newestPackage()
	if err != nil {
		return "", err
	}
	if _, err := run(tmp, "apt-get", "-qq", "download", pkg); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d packages, want 1", pkg, len(debs))
	}
	if _, err := run(tmp, "dpkg-deb", "-x", debs[0], "root"); err != nil {
		return "", err
	}
	dirs, err := filepath.Glob(filepath.Join(tmp, "root/usr/src/*/include"))
	if err != nil || len(dirs) != 1 {
		return "", fmt.Errorf("%s holds %d include directories, want 1", pkg, len(dirs))
	}
	return dirs[0], nil
}

var packageName = regexp.MustCompile(`(?m)^linux-headers-` + regexp.QuoteMeta(Series) + `\.(\d+)\S*-common `)

// newestPackage names the common headers package with the highest point release that apt knows.
func newestPackage() (string, error) {
	out, err := run("", "apt-cache", "search", "--names-only", `^linux-headers-`+Series+`\.`)
	if err != nil {
		return "", err
	}
	name, best := "", -1
	for _, m := range packageName.FindAllStringSubmatch(out, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n > best {
			name, best = strings.TrimSpace(m[0]), n
		}
	}
	if name == "" {
		return "", fmt.Errorf("apt knows no linux-headers-%s.*-common: run `apt-get update` on Debian 12 or 13", Series)
	}
	return name, nil
}

func run(dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
