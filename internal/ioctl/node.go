package ioctl

import (
	"fmt"
	"sync"
)

var nodes struct {
	sync.Mutex
	made  int
	files map[string]File
}

// Node gives f, which stands in for a device, a path that [Open] opens once, whatever
// number is asked for.
func Node(f File) string {
	nodes.Lock()
	defer nodes.Unlock()
	if nodes.files == nil {
		nodes.files = make(map[string]File)
	}
	nodes.made++
	path := fmt.Sprintf("in-process device %d", nodes.made)
	nodes.files[path] = f
	return path
}

// named returns what Node gave a path, or nil.
func named(path string) File {
	nodes.Lock()
	defer nodes.Unlock()
	f := nodes.files[path]
	delete(nodes.files, path)
	return f
}
