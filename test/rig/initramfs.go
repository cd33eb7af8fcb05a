//go:build linux

package rig

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// makeInitramfs writes pid 1 (this very program), the early modules and the
// job to a file that has no name any more, so that nothing is ever left behind.
func makeInitramfs(k Kernel, job Job) (*os.File, error) {
	f, err := os.CreateTemp("", "goverbs-initramfs-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	buf := bufio.NewWriter(f)
	if err := writeInitramfs(buf, k, job); err != nil {
		f.Close()
		return nil, err
	}
	if err := buf.Flush(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func writeInitramfs(w io.Writer, k Kernel, job Job) error {
	dep, err := os.ReadFile(filepath.Join(k.Modules(), "modules.dep"))
	if err != nil {
		return err
	}
	init, err := staticSelf()
	if err != nil {
		return err
	}
	c := &cpioWriter{w: w}
	for _, d := range []string{"dev", "proc", "sys", "host", "rw", "root", "modules"} {
		c.dir(d)
	}
	files, _ := parseModulesDep(string(dep)).order(early)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(k.Modules(), file))
		if err != nil {
			return err
		}
		name := "modules/" + filepath.Base(file)
		c.file(name, 0o644, data)
		job.Insmod = append(job.Insmod, "/"+name)
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	c.file(JobFile[1:], 0o600, text)
	c.file(InitFile[1:], 0o755, init)
	return c.close()
}

// staticSelf reads this program, which is also the guest's first process and
// there has no shared library to load.
func staticSelf() ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is dynamically linked and cannot be the guest's init: build it with CGO_ENABLED=0", exe)
		}
	}
	return os.ReadFile(exe)
}
