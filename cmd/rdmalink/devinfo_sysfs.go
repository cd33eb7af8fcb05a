package main

import (
	"io/fs"
	"path"
	"strings"
)

// sysfs reads a tree of attributes. What can't be read is empty.
type sysfs struct{ fs.FS }

func (s sysfs) has(elem ...string) bool {
	_, err := fs.Stat(s.FS, path.Join(elem...))
	return err == nil
}

func (s sysfs) text(elem ...string) string {
	b, err := fs.ReadFile(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// list names what is in a directory.
func (s sysfs) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(s.FS, dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// link is the last part of where a symbolic link leads.
func (s sysfs) link(elem ...string) string {
	to, err := fs.ReadLink(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return path.Base(to)
}
