//go:build vm

package stream

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

	"github.com/goverbs/goverbs/test/kit"
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
	if got := kit.Must(os.ReadFile(path))(t); !bytes.Equal(got, want) {
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
	tool := kit.Must(filepath.Abs(kit.RdmalinkBin))(t)
	eachIPv4Host(t, func(t *testing.T, host string) {
		dir := t.TempDir()
		cmd := exec.Command(tool, "cp")
		cmd.Dir = dir
		server := kit.ServeCM(t, cmd, rcopyPort)
		from := filepath.Join(t.TempDir(), "from")
		for _, size := range kit.FewElsewhere(rcopySizes, 2) {
			kit.OK(t, os.WriteFile(from, someFile(size), 0o600))
			if out := kit.Launch(t, exec.Command("rcopy", from, fmt.Sprintf("%s:to%d", host, size))).End(); out.Code != 0 {
				t.Errorf("%+v", out)
			}
		}
		outside := filepath.Join(t.TempDir(), "outside")
		if out := kit.Launch(t, exec.Command("rcopy", from, host+":"+outside)).End(); out.Code == 0 {
			t.Errorf("%+v", out)
		}
		if _, err := os.Stat(outside); !os.IsNotExist(err) {
			t.Error(err)
		}
		kit.OK(t, server.Process.Signal(syscall.SIGINT))
		out := server.End()
		if out.Code != 0 || strings.Count(out.Err, "\n") != 1 || !strings.Contains(out.Err, "path escapes") {
			t.Errorf("%+v", out)
		}
		lines := strings.Split(out.Out, "\n")
		for i, size := range kit.FewElsewhere(rcopySizes, 2) {
			checkCopied(t, filepath.Join(dir, fmt.Sprintf("to%d", size)), someFile(size), lines[i])
		}
	})
}

// TestRcopyServer has C's server receive files, one connection after the other.
func TestRcopyServer(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		server := kit.ServeCM(t, exec.Command("rcopy"), rcopyPort)
		// copiedTo runs rdmalink cp. C's server may speak too early. It may then wait for ever for that client, so another one
		// takes its place.
		copiedTo := func(from, to string) (out kit.Output) {
			notEarly(t, func() error {
				out = kit.Launch(t, exec.Command(kit.RdmalinkBin, "cp", from, to)).End()
				err := errors.New("synchronize: " + out.Err)
				if out.Code == 0 || !spokeEarly.MatchString(err.Error()) {
					return nil
				}
				kit.OK(t, server.Process.Kill())
				server.End()
				server = kit.ServeCM(t, exec.Command("rcopy"), rcopyPort)
				return err
			})
			return out
		}
		for _, size := range rcopySizes {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			kit.OK(t, os.WriteFile(from, someFile(size), 0o600))
			out := copiedTo(from, host+":"+to)
			if out.Code != 0 || out.Err != "" {
				t.Errorf("%+v", out)
			}
			checkCopied(t, to, someFile(size), out.Out)
		}
		if out := copiedTo(os.Args[0], host+":/no/such"); out.Code != 1 || !strings.Contains(out.Err, "no such file") {
			t.Errorf("%+v", out)
		}
	})
}

// TestCp has both ends of ours, over IPv6.
func TestCp(t *testing.T) {
	kit.Only612(t)
	tool := kit.Must(filepath.Abs(kit.RdmalinkBin))(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	cmd := exec.Command(tool, "cp", "-p", "7428", "-j")
	cmd.Dir = t.TempDir()
	server := kit.ServeCM(t, cmd, "7428")
	from := filepath.Join(t.TempDir(), "empty")
	kit.OK(t, os.WriteFile(from, nil, 0o600))
	out := kit.Launch(t, exec.Command(tool, "cp", "-p", "7428", from, "["+kit.RxeIPv6+"]")).End()
	if out.Code != 0 {
		t.Errorf("%+v", out)
	}
	checkCopied(t, filepath.Join(cmd.Dir, "empty"), nil, out.Out)
	kit.OK(t, server.Process.Signal(syscall.SIGINT))
	if out := server.End(); out.Code != 0 || out.Err != "" || !strings.Contains(out.Out, `"name":"empty","bytes":0,`) {
		t.Errorf("%+v", out)
	}
}
