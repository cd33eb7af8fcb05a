//go:build linux

package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/rig"
)

type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
	}
	return nil
}

// mountRoot lays a tmpfs over the host's root and moves there. /tmp stays the
// host's, below the overlay: `go test` puts its binaries there.
func mountRoot(job rig.Job) error {
	host := mount{"root", "/host", "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=512000,cache=loose"}
	if job.UML {
		host = mount{"none", "/host", "hostfs", unix.MS_RDONLY, "/"}
	}
	for _, m := range []mount{
		host,
		{"tmpfs", "/rw", "tmpfs", 0, "size=75%"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	for _, d := range []string{"/rw/upper", "/rw/work"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"overlay", "/root", "overlay", 0, "lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work"},
		{"/dev", "/root/dev", "", unix.MS_MOVE, ""},
		{"/proc", "/root/proc", "", unix.MS_MOVE, ""},
		{"/sys", "/root/sys", "", unix.MS_MOVE, ""},
		{"devpts", "/root/dev/pts", "devpts", 0, "ptmxmode=666,mode=620"},
		{"tmpfs", "/root/dev/shm", "tmpfs", 0, "mode=1777"},
		{"tmpfs", "/root/run", "tmpfs", 0, "mode=755"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return switchRoot("/root")
}

func switchRoot(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		os.Remove("/dev/" + name)
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	return os.Chdir("/")
}
