package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// process is a process of the sandbox, named by one of its threads. Errors are plain
// errnos, as its system calls return them.
type process int

// read copies memory of the process.
func (p process) read(addr uint64, b []byte) error {
	return p.copy(unix.ProcessVMReadv, (*os.File).ReadAt, addr, b)
}

func (p process) write(addr uint64, b []byte) error {
	return p.copy(unix.ProcessVMWritev, (*os.File).WriteAt, addr, b)
}

// copy uses the process's file where the kernel was built without CROSS_MEMORY_ATTACH, or whatever runs
// this forbids it.
func (p process) copy(how func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), file func(*os.File, []byte, int64) (int, error),
	addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	n, err := how(int(p), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	switch {
	case err == unix.ESRCH:
		return err
	case err == unix.ENOSYS || err == unix.EPERM:
		return p.copyFile(file, addr, b)
	case err != nil || n != len(b):
		return syscall.EFAULT
	}
	return nil
}

// copyFile is copy by way of /proc.
func (p process) copyFile(how func(*os.File, []byte, int64) (int, error), addr uint64, b []byte) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", int(p)), os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return unix.ESRCH
	case err != nil:
		return syscall.EFAULT
	}
	defer f.Close()
	if n, err := how(f, b, int64(addr)); n != len(b) || err != nil {
		return syscall.EFAULT
	}
	return nil
}

// inode is the number of the file behind a descriptor of the process.
func (p process) inode(fd int32) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", int(p), fd), &st)
	return st.Ino, err
}

// get reads a struct of the process's.
func get[T any](p process, addr uint64) (v T, err error) {
	err = p.read(addr, abi.Bytes(&v))
	return v, err
}

func put[T any](p process, addr uint64, v T) error { return p.write(addr, abi.Bytes(&v)) }

// text reads a string up to its NUL, a page at most at a time.
func (p process) text(addr uint64) (string, error) {
	const longest = unix.PathMax
	var s []byte
	for len(s) < longest {
		page := uint64(os.Getpagesize())
		b := make([]byte, min(page-addr%page, 256))
		if err := p.read(addr, b); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(s, b[:i]...)), nil
		}
		s, addr = append(s, b...), addr+uint64(len(b))
	}
	return "", syscall.ENAMETOOLONG
}

// file tells which file a descriptor of the process stands for.
func (p process) file(fd int32) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", int(p), fd), &st); err != nil {
		return fileID{}, syscall.EBADF
	}
	return fileID{st.Dev, st.Ino}, nil
}

// fileID names a file.
type fileID struct{ dev, ino uint64 }

// freeFD is a number for one of our descriptors.
func (p process) freeFD() int {
	for fd := firstFD; ; fd++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", int(p), fd)); err != nil {
			return fd
		}
	}
}

// leader is the process that a thread belongs to.
func (p process) leader() process {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", int(p)))
	if err != nil {
		return p
	}
	tgid := int(p)
	for line := range bytes.Lines(b) {
		if _, err := fmt.Sscanf(string(line), "Tgid: %d", &tgid); err == nil {
			break
		}
	}
	return process(tgid)
}

// getenv reads a variable of the environment that the process was started with.
func (p process) getenv(name string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", int(p)))
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// directory is what a relative path of the process begins at.
func (p process) directory() string {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", int(p)))
	if err != nil {
		return "/"
	}
	return dir
}
