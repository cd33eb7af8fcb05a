package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// find finds the file of ours that a call is about. A descriptor of that number may be
// another's.
func find[T any](c *call, fd int32) (is T, ok bool) {
	f, err := c.files.find(c.process, fd)
	if err != nil {
		return is, false
	}
	is, ok = f.(T)
	return is, ok
}

func (c *call) fstat() result { return c.fstatTo(1) }

func (c *call) fstatTo(to int) result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return goOn
	}
	var st unix.Stat_t
	f.node().stat(&st)
	return done(0, c.write(c.Args[to], abi.Bytes(&st)))
}

func (c *call) statxFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return goOn
	}
	st := unix.Statx_t{Mask: unix.STATX_BASIC_STATS}
	f.node().statx(&st)
	return done(0, c.write(c.Args[4], abi.Bytes(&st)))
}

// writer is a file that takes write(2).
type writer interface {
	take(c *call, b []byte) result
}

// longest is as much as one write may carry: more than any command.
const longest = 1 << 20

func (c *call) writeFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return goOn
	}
	w, ok := f.(writer)
	if !ok || c.Args[2] > longest {
		return result{errno: syscall.EINVAL}
	}
	b := make([]byte, c.Args[2])
	if err := c.read(c.Args[1], b); err != nil {
		return failed(err)
	}
	c.look()
	return w.take(c, b)
}

func (c *call) writevFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return goOn
	}
	w, ok := f.(writer)
	if !ok {
		return result{errno: syscall.EINVAL}
	}
	b, err := c.gather(c.Args[1], c.Args[2])
	if err != nil {
		return failed(err)
	}
	c.look()
	return w.take(c, b)
}

// gather reads the data that a vector of n pieces describes.
func (c *call) gather(addr, n uint64) (b []byte, err error) {
	if n > maxVectors {
		return nil, syscall.EINVAL
	}
	for range n {
		v, err := get[vector](c.process, addr)
		if err != nil {
			return nil, err
		}
		if v.Length > longest-uint64(len(b)) {
			return nil, syscall.EINVAL
		}
		piece := make([]byte, v.Length)
		if err := c.read(v.Base, piece); err != nil {
			return nil, err
		}
		b, addr = append(b, piece...), addr+16
	}
	return b, nil
}

// maxVectors is IOV_MAX.
const maxVectors = 1024

// vector is struct iovec.
type vector struct{ Base, Length uint64 }

func (c *call) readFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return goOn
	}
	if s, ok := f.(*socket); ok {
		return s.receive(c, message{base: c.Args[1], room: c.Args[2]})
	}
	return result{errno: syscall.EINVAL}
}

// mmap lets the kernel map the file, if the device has these pages there.
func (c *call) mmap() result {
	d, ok := find[*device](c, c.fd(4))
	if !ok {
		return goOn
	}
	if err := d.mapped(int64(c.Args[5]), int(c.Args[1])); err != nil {
		return failed(err)
	}
	return goOn
}

// dup gives the copy a number whose calls come here, too.
func (c *call) dup() result {
	if _, ok := find[file](c, c.fd(0)); !ok {
		return goOn
	}
	pidfd, err := unix.PidfdOpen(c.leader(), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(pidfd)
	if !c.waits() {
		return result{errno: syscall.ESRCH} // the number may be another's by now
	}
	fd, err := unix.PidfdGetfd(pidfd, int(c.fd(0)), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return done(c.giveOurs(fd, c.Nr == unix.SYS_FCNTL && c.Args[1] == unix.F_DUPFD_CLOEXEC))
}
