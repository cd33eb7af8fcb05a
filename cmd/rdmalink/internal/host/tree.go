package host

import (
	"io/fs"
	"path"
	"strings"
)

// Tree reads a tree of attributes. An attribute that can't be read is empty.
type Tree struct{ fs.FS }

func (s Tree) Has(elem ...string) bool {
	_, err := fs.Stat(s.FS, path.Join(elem...))
	return err == nil
}

func (s Tree) Text(elem ...string) string {
	b, err := fs.ReadFile(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// List returns the names in a directory.
func (s Tree) List(dir string) (names []string) {
	entries, _ := fs.ReadDir(s.FS, dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Link is the last part of where a symbolic link leads.
func (s Tree) Link(elem ...string) string {
	to, err := fs.ReadLink(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return path.Base(to)
}
