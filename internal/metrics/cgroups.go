package metrics

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Cgroup is the use and the limit of a resource of the rdma controller.
type Cgroup struct {
	Path, Device, Resource string // Resource is hca_handle or hca_object
	Current, Max           uint64 // Max may be NoLimit
}

// hierarchy is the tree of cgroups that has the rdma controller. The kernel reports the cgroup of a
// process relative to the root of the reader's cgroup namespace, such as /../../b.slice. A pod has
// a namespace of its own, while the files of the host, which it mounts, are those of the whole tree.
type hierarchy struct {
	sys fs.FS
	dir string // in sys
	// root is the place of the namespace's root in the tree; it is empty at the top of the tree.
	root string
}

// maxCgroupDirs bounds the search for the root.
const maxCgroupDirs = 1 << 13

// findHierarchy looks for the directory that lists this process. Without one, the tree is that of
// the namespace.
func findHierarchy(proc, sys fs.FS) *hierarchy {
	h := &hierarchy{sys: sys, dir: "fs/cgroup"}
	if sys == nil || proc == nil {
		return h
	}
	if _, err := fs.Stat(sys, "fs/cgroup/rdma/cgroup.procs"); err == nil {
		if _, err := fs.Stat(sys, "fs/cgroup/cgroup.controllers"); err != nil { // version 1
			h.dir = "fs/cgroup/rdma"
		}
	}
	// Of the numbers of a process, cgroup.procs has the one of the reader's PID namespace: the last.
	numbers := strings.Fields(field(text(proc, "self/status"), "NSpid:"))
	own := strings.TrimSuffix(cgroupOf(text(proc, "self/cgroup")), "/")
	if len(numbers) == 0 || strings.HasPrefix(own, "/..") {
		return h
	}
	self := numbers[len(numbers)-1]
	if h.lists(own, self) {
		return h
	}
	dirs := []string{""}
	for i := 0; i < len(dirs); i++ {
		if root, ok := strings.CutSuffix(dirs[i], own); ok && h.lists(dirs[i], self) {
			h.root = root
			return h
		}
		entries, _ := fs.ReadDir(sys, h.dir+dirs[i])
		for _, e := range entries {
			if e.IsDir() && len(dirs) < maxCgroupDirs {
				dirs = append(dirs, dirs[i]+"/"+e.Name())
			}
		}
	}
	return h
}

// lists reports whether a cgroup has the process.
func (h *hierarchy) lists(cgroup, pid string) bool {
	return slices.Contains(strings.Fields(text(h.sys, h.dir+cgroup+"/cgroup.procs")), pid)
}

// resolve returns the path in the tree of a cgroup that the kernel reports. It returns false if the
// tree ends below the cgroup.
func (h *hierarchy) resolve(cgroup string) (string, bool) {
	root := h.root
	for cgroup == "/.." || strings.HasPrefix(cgroup, "/../") {
		if root == "" {
			return "", false
		}
		root, cgroup = root[:strings.LastIndexByte(root, '/')], cgroup[len("/.."):]
	}
	return path.Clean("/" + root + cgroup), true
}

// cgroupOf parses /proc/PID/cgroup. It returns the path in the rdma hierarchy of version 1. Without
// one it returns the path of version 2.
func cgroupOf(text string) (name string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), "rdma"):
			return parts[2]
		case parts[1] == "":
			name = parts[2]
		}
	}
	return name
}

// rdma reads the rdma controller of a cgroup, whose path is one of the tree.
func (h *hierarchy) rdma(cgroup string) (all []Cgroup) {
	dir := path.Join(h.dir, cgroup)
	current, most := uses(text(h.sys, dir+"/rdma.current")), uses(text(h.sys, dir+"/rdma.max"))
	for key, n := range current {
		limit, limited := most[key]
		if !limited {
			limit = NoLimit
		}
		all = append(all, Cgroup{cgroup, key.device, key.resource, n, limit})
	}
	slices.SortFunc(all, func(a, b Cgroup) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

type cgroupKey struct{ device, resource string }

// uses parses lines such as "siw0 hca_handle=2 hca_object=max".
func uses(text string) map[cgroupKey]uint64 {
	all := make(map[cgroupKey]uint64)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			resource, value, _ := strings.Cut(words[i], "=")
			n, err := strconv.ParseUint(value, 10, 64)
			if value == "max" {
				n, err = NoLimit, nil
			}
			if err == nil && len(all) < maxCounters {
				all[cgroupKey{words[0], resource}] = n
			}
		}
	}
	return all
}
