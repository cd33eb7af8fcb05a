package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// Each of these carries out a call on a path that the sandbox shows.

func (c *call) open() result   { return c.openPath(unix.AT_FDCWD, 0, int(c.Args[1])) }
func (c *call) openat() result { return c.openPath(c.fd(0), 1, int(c.Args[2])) }

func (c *call) openat2() result {
	how, err := get[unix.OpenHow](c.process, c.Args[2])
	if err != nil {
		return goOn
	}
	return c.openPath(c.fd(0), 1, int(how.Flags))
}

func (c *call) openPath(dirfd int32, arg, flags int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return goOn
	}
	if is, ok := c.machine().nodes[path]; ok && flags&unix.O_PATH == 0 {
		return c.openNode(is, flags)
	}
	fd, err := unix.Open(c.behind(path), flags&^(unix.O_CREAT|unix.O_TRUNC)|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return done(c.give(fd, flags&unix.O_CLOEXEC != 0))
}

func (c *call) stat() result  { return c.statPath(unix.AT_FDCWD, 0, 1, 0) }
func (c *call) lstat() result { return c.statPath(unix.AT_FDCWD, 0, 1, unix.AT_SYMLINK_NOFOLLOW) }

func (c *call) fstatat() result {
	if c.itself(0, 1, 3) {
		return c.fstatTo(2)
	}
	return c.statPath(c.fd(0), 1, 2, int(c.Args[3]))
}

// itself reports whether a call refers to one of the sandbox's descriptors instead of a
// path.
func (c *call) itself(fd, path, flags int) bool {
	if int(c.Args[flags])&unix.AT_EMPTY_PATH == 0 || c.fd(fd) < firstFD {
		return false
	}
	name, err := c.text(c.Args[path])
	return name == "" && (err == nil || c.Args[path] == 0)
}

func (c *call) statPath(dirfd int32, arg, to, flags int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return goOn
	}
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, c.behind(path), &st, flags&unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed(err)
	}
	if is, ok := c.machine().nodes[path]; ok {
		is.stat(&st)
	}
	return done(0, c.write(c.Args[to], abi.Bytes(&st)))
}

func (c *call) statx() result {
	var st unix.Statx_t
	if c.itself(0, 1, 2) {
		return c.statxFile()
	}
	path, ok := c.path(c.fd(0), 1)
	if !ok {
		return goOn
	}
	if err := unix.Statx(unix.AT_FDCWD, c.behind(path), int(c.Args[2]), int(c.Args[3]), &st); err != nil {
		return failed(err)
	}
	if is, ok := c.machine().nodes[path]; ok {
		is.statx(&st)
	}
	return done(0, c.write(c.Args[4], abi.Bytes(&st)))
}

func (c *call) access() result    { return c.accessPath(unix.AT_FDCWD, 0) }
func (c *call) faccessat() result { return c.accessPath(c.fd(0), 1) }

// accessPath asks for no more than that the path is there: the nodes are open to all.
func (c *call) accessPath(dirfd int32, arg int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return goOn
	}
	return done(0, unix.Access(c.behind(path), unix.F_OK))
}

func (c *call) readlink() result   { return c.readlinkPath(unix.AT_FDCWD, 0) }
func (c *call) readlinkat() result { return c.readlinkPath(c.fd(0), 1) }

func (c *call) readlinkPath(dirfd int32, arg int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return goOn
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlink(c.behind(path), b)
	if err != nil {
		return failed(err)
	}
	n = min(n, int(c.Args[arg+2]))
	return done(n, c.write(c.Args[arg+1], b[:n]))
}

// xattr answers that files of the sandbox's have no extended attributes, which ls asks for.
func (c *call) xattr() result {
	if _, ok := c.path(unix.AT_FDCWD, 0); !ok {
		return goOn
	}
	return result{errno: syscall.EOPNOTSUPP}
}

// openNode opens a device node.
func (c *call) openNode(is node, flags int) result {
	if is == cmNode {
		return c.openCM(flags)
	}
	if is.major != verbsNode(0).major {
		return result{errno: syscall.ENXIO}
	}
	return c.openDevice(is, flags)
}
