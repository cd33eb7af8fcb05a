//go:build linux

package rig

import (
	"fmt"
	"io"
)

// cpioWriter writes a "newc" cpio archive, the format of an initramfs.
type cpioWriter struct {
	w     io.Writer
	ino   int
	bytes int
	err   error
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

// dir adds a directory; parents come first.
func (c *cpioWriter) dir(name string) { c.entry(name, cpioDir|0o755, nil) }

// file adds a regular file.
func (c *cpioWriter) file(name string, perm int, data []byte) { c.entry(name, cpioFile|perm, data) }

// close ends the archive and returns the first error of any call.
func (c *cpioWriter) close() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode int, data []byte) {
	c.ino++
	// inode, mode, uid, gid, links, mtime, size, device and rdevice (major, minor), name length, checksum
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpioWriter) pad() { c.write(make([]byte, -c.bytes&3)) }

func (c *cpioWriter) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(p)
	c.bytes += n
	c.err = err
}
