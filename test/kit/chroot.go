//go:build vm

package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Chroot is a directory to change root to. It holds two static programs and
// the device nodes that it was given, but no /sys, no /proc, no /etc.
type Chroot struct {
	t    *testing.T
	root string
}

// NewChroot creates a chroot.
func NewChroot(t *testing.T) *Chroot {
	t.Helper()
	j := &Chroot{t, t.TempDir()}
	for dir := j.root; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			break // not ours, and so open to all
		}
	}
	for _, name := range []string{"rdmalink", "exchange"} {
		binary, err := os.ReadFile("../../bin/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(j.root, name), binary, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// Give creates a device node in the directory, as docker's --device does.
func (j *Chroot) Give(path string) {
	j.t.Helper()
	inside := filepath.Join(j.root, path)
	if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
		j.t.Fatal(err)
	}
	var outside unix.Stat_t
	if err := unix.Stat(path, &outside); err != nil {
		j.t.Fatal(err)
	}
	if err := unix.Mknod(inside, unix.S_IFCHR|0o666, int(outside.Rdev)); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Chmod(inside, 0o666); err != nil {
		j.t.Fatal(err)
	}
}

// Command runs in the directory, with an empty environment.
func (j *Chroot) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.root}
	return cmd
}

// DeviceNumber returns the numbers of a device node as mknod takes them.
func DeviceNumber(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

// What rdmalink says without rights and without modules is in link_test.go.

// Nobody makes a command run as an unprivileged user.
func Nobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// Unload unloads a module if it is loaded. Objects of the last test may still be
// released in the background.
func Unload(t *testing.T, module string) {
	t.Helper()
	Until(t, "unloaded", func() bool {
		exec.Command("rmmod", module).Run()
		loaded := string(Must(os.ReadFile("/proc/modules"))(t))
		return !strings.HasPrefix(loaded, module+" ") && !strings.Contains(loaded, "\n"+module+" ")
	})
}
