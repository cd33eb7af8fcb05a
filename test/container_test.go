//go:build vm

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// jail is a directory to change root to. It holds the two static programs and
// what else it was given: no /sys, no /proc, no /etc.
type jail struct {
	t    *testing.T
	root string
}

func newJail(t *testing.T) *jail {
	t.Helper()
	j := &jail{t, t.TempDir()}
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

// give makes a device node in the jail, as docker's --device does.
func (j *jail) give(path string) {
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

// command runs in the jail, with an empty environment.
func (j *jail) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.root}
	return cmd
}

func deviceNumber(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

// TestContainer: a static program and two device nodes are all that it takes.
func TestContainer(t *testing.T) {
	only612(t)
	fabric(t)
	j := newJail(t)
	j.give("/dev/infiniband/rdma_cm")
	j.give(infoOf(t, dummyLink).Node)
	for name, credential := range map[string]*syscall.Credential{"root": nil, "nobody": {Uid: 65534, Gid: 65534}} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			command := func(name string, args ...string) *exec.Cmd {
				cmd := j.command(name, args...)
				cmd.SysProcAttr.Credential = credential
				return cmd
			}
			for _, host := range []string{dummyIPv4, dummyIPv6} {
				server := start(t, command("/exchange", "-s", hostPort(host, "7471")))
				server.line(t)
				start(t, command("/exchange", "-c", hostPort(host, "7471"), "-size", "100000")).finish(t)
				server.finish(t)
				rpings := serveRping(t, command("/rdmalink", "rping", "-s", "-a", host, "-C", "10"))
				pinged(t, rpings, launch(t, command("/rdmalink", "rping", "-c", "-a", host, "-C", "10", "-V")))
			}
			want := output{Out: "link gvsiw0/1 state ACTIVE physical_state LINK_UP netdev gvdummy \n"}
			if got := runCommand(t, command("/rdmalink", "show", dummyLink)); got != want {
				t.Errorf("%+v", got)
			}
		})
	}
}
