package rig

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeInitramfs writes pid 1 (this very program), the early modules and the
// job to path.
func writeInitramfs(path string, k Kernel, job Job) error {
	dep, err := os.ReadFile(filepath.Join(k.Modules(), "modules.dep"))
	if err != nil {
		return err
	}
	init, err := staticSelf()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriter(f)
	c := &cpioWriter{w: buf}
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
	c.file("init", 0o755, init)
	if err := c.close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return buf.Flush()
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
