//go:build vm

package test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const rcopyPort = "7427"

func someFile(size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(b)
	return b
}

var rcopySizes = []int{1, 70000, 1_000_001}

// eachIPv4Host runs a test on each transport. rcopy knows no IPv6.
func eachIPv4Host(t *testing.T, test func(t *testing.T, host string)) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		if !strings.Contains(host, ":") {
			test(t, host)
		}
	})
}

// checkCopied compares a file with the original, and its checksum with the printed one.
func checkCopied(t *testing.T, path string, want []byte, printed string) {
	t.Helper()
	if got := must(os.ReadFile(path))(t); !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes of %d, or others", path, len(got), len(want))
	}
	sum := fmt.Sprintf("%d bytes in ", len(want))
	if hash := fmt.Sprintf("sha256 %x", sha256.Sum256(want)); !strings.Contains(printed, sum) || !strings.Contains(printed, hash) {
		t.Errorf("%q, want %q and %q", printed, sum, hash)
	}
}

// TestRcopyClient has C's client send files to rdmalink cp, which refuses one that would
// lie outside its directory.
func TestRcopyClient(t *testing.T) {
	tool := must(filepath.Abs(rdmalinkBin))(t)
	eachIPv4Host(t, func(t *testing.T, host string) {
		dir := t.TempDir()
		cmd := exec.Command(tool, "cp")
		cmd.Dir = dir
		server := serveCM(t, cmd, rcopyPort)
		from := filepath.Join(t.TempDir(), "from")
		for _, size := range fewElsewhere(rcopySizes, 2) {
			ok(t, os.WriteFile(from, someFile(size), 0o600))
			if out := launch(t, exec.Command("rcopy", from, fmt.Sprintf("%s:to%d", host, size))).end(); out.Code != 0 {
				t.Errorf("%+v", out)
			}
		}
		outside := filepath.Join(t.TempDir(), "outside")
		if out := launch(t, exec.Command("rcopy", from, host+":"+outside)).end(); out.Code == 0 {
			t.Errorf("%+v", out)
		}
		if _, err := os.Stat(outside); !os.IsNotExist(err) {
			t.Error(err)
		}
		ok(t, server.Process.Signal(syscall.SIGINT))
		out := server.end()
		if out.Code != 0 || strings.Count(out.Err, "\n") != 1 || !strings.Contains(out.Err, "path escapes") {
			t.Errorf("%+v", out)
		}
		lines := strings.Split(out.Out, "\n")
		for i, size := range fewElsewhere(rcopySizes, 2) {
			checkCopied(t, filepath.Join(dir, fmt.Sprintf("to%d", size)), someFile(size), lines[i])
		}
	})
}

// TestRcopyServer has C's server receive files, one connection after the other.
func TestRcopyServer(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		serveCM(t, exec.Command("rcopy"), rcopyPort)
		for _, size := range rcopySizes {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			ok(t, os.WriteFile(from, someFile(size), 0o600))
			out := copiedTo(t, from, host+":"+to)
			if out.Code != 0 || out.Err != "" {
				t.Errorf("%+v", out)
			}
			checkCopied(t, to, someFile(size), out.Out)
		}
		if out := copiedTo(t, os.Args[0], host+":/no/such"); out.Code != 1 || !strings.Contains(out.Err, "no such file") {
			t.Errorf("%+v", out)
		}
	})
}

// copiedTo runs rdmalink cp with C's server, which may speak too early.
func copiedTo(t *testing.T, from, to string) (out output) {
	t.Helper()
	notEarly(t, func() error {
		out = launch(t, exec.Command(rdmalinkBin, "cp", from, to)).end()
		if err := errors.New("synchronize: " + out.Err); out.Code != 0 && spokeEarly.MatchString(err.Error()) {
			return err
		}
		return nil
	})
	return out
}

// TestCp has both ends of ours, over IPv6.
func TestCp(t *testing.T) {
	only612(t)
	tool := must(filepath.Abs(rdmalinkBin))(t)
	rxeFabric(t)
	noLeak(t)
	cmd := exec.Command(tool, "cp", "-p", "7428", "-j")
	cmd.Dir = t.TempDir()
	server := serveCM(t, cmd, "7428")
	from := filepath.Join(t.TempDir(), "empty")
	ok(t, os.WriteFile(from, nil, 0o600))
	out := launch(t, exec.Command(tool, "cp", "-p", "7428", from, "["+rxeIPv6+"]")).end()
	if out.Code != 0 {
		t.Errorf("%+v", out)
	}
	checkCopied(t, filepath.Join(cmd.Dir, "empty"), nil, out.Out)
	ok(t, server.Process.Signal(syscall.SIGINT))
	if out := server.end(); out.Code != 0 || out.Err != "" || !strings.Contains(out.Out, `"name":"empty","bytes":0,`) {
		t.Errorf("%+v", out)
	}
}
