package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestSupervisorKilled checks that all processes of a sandbox end with their supervisor, or with the process
// between it and the command.
func TestSupervisorKilled(t *testing.T) {
	// Two of them are orphans, and the second has a session of its own.
	const line = `sleep 1000 & (sleep 1000 & setsid sh -c 'echo session $$; sleep 1000' &) ; echo guard $PPID; sleep 1000`
	need(t, "setsid")
	ignoresHangup := signal.Ignored(unix.SIGHUP)
	for way, options := range ways {
		for victim, signal := range map[string]unix.Signal{"supervisor": unix.SIGKILL, "supervisor's terminal": unix.SIGHUP, "guard": unix.SIGKILL} {
			if signal == unix.SIGHUP && ignoresHangup {
				continue // the test runs under nohup, and so would the sandbox
			}
			c := exec.Command(os.Args[0], slices.Concat(options, []string{"--", "sh", "-c", line})...)
			c.Env = append(os.Environ(), errorFile+"="+filepath.Join(t.TempDir(), "error"))
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c.Stdout, c.Stderr = w, w
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			ids := make(map[string]int)
			lines := bufio.NewScanner(r)
			for len(ids) < 2 && lines.Scan() {
				name, id, _ := strings.Cut(lines.Text(), " ")
				if ids[name], err = strconv.Atoi(id); err != nil {
					t.Fatal(err)
				}
			}
			if victim == "guard" {
				err = unix.Kill(ids[victim], signal)
			} else {
				err = c.Process.Signal(signal)
			}
			if err != nil {
				t.Fatal(err)
			}
			for lines.Scan() { // until no process has the pipe open
				t.Errorf("%s, %s: %q", way, victim, lines.Text())
			}
			r.Close()
			err = c.Wait()
			if code := c.ProcessState.Sys().(syscall.WaitStatus); victim == "guard" && code.ExitStatus() != 1 || victim != "guard" && code.Signal() != signal {
				t.Errorf("%s, %s: %v", way, victim, err)
			}
		}
	}
}

// TestOrphansAreReaped checks that processes whose parent has ended leave the list of processes when they end, while
// the command runs.
func TestOrphansAreReaped(t *testing.T) {
	const line = `for i in 1 2 3; do (sh -c 'echo $$' &); done > %[1]s; while [ "$(wc -l < %[1]s)" != 3 ]; do :; done
		for pid in $(cat %[1]s); do while kill -0 $pid 2> /dev/null; do :; done; done; exit 7`
	for way, options := range ways {
		if out, err := inside(t, options, "timeout", "-s", "KILL", "120", "sh", "-c", fmt.Sprintf(line, filepath.Join(t.TempDir(), "pids"))); err != cli.ExitCode(7) {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
	}
}

// TestNoSupervisor checks that a process whose supervisor has ended does not become the command.
func TestNoSupervisor(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()
	unix.Close(pair[0])
	var out strings.Builder
	c := exec.Command(os.Args[0], "sandbox", "--", "/bin/echo", "echo", "it runs")
	c.Env, c.ExtraFiles, c.Stdout = append(os.Environ(), stage+"="+becoming), []*os.File{theirs}, &out
	if err := c.Run(); err == nil || out.String() != "" {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestRemoveOld checks that a sandbox removes the directories of those that were killed, and no others.
func TestRemoveOld(t *testing.T) {
	dir := t.TempDir()
	alive, err := lockedDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	killed, err := lockedDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed.Name(), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	killed.Close()
	elsewhere := t.TempDir()
	link, other := filepath.Join(dir, dirPrefix+"link"), filepath.Join(dir, "another program's")
	if err := errors.Join(os.Symlink(elsewhere, link), os.Mkdir(other, 0o700)); err != nil {
		t.Fatal(err)
	}
	removeOld(dir)
	for _, path := range []string{alive.Name(), elsewhere, link, other} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(killed.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", killed.Name(), err)
	}
	if _, err := lock(killed.Name()); err != unix.ENOENT {
		t.Errorf("a directory that another sandbox removed: %v", err)
	}
}
