package sandbox

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// shown are the directories that are the sandbox's, and not the machine's.
var shown = []string{
	"/dev/infiniband", "/sys/class/infiniband", "/sys/class/infiniband_cm", "/sys/class/infiniband_mad",
	"/sys/class/infiniband_ucma", "/sys/class/infiniband_verbs", "/sys/class/misc/rdma_cm",
	"/sys/devices/virtual/infiniband", "/sys/devices/virtual/infiniband_verbs",
}

// covered reports whether an absolute path is in one of the directories.
func covered(path string) bool {
	for _, s := range shown {
		if path == s || strings.HasPrefix(path, s) && path[len(s)] == '/' {
			return true
		}
	}
	return false
}

// may is a quick check of a path that is not clean yet.
func may(path string) bool {
	return strings.Contains(path, "infiniband") || strings.Contains(path, "rdma_cm")
}

// path reads the path of a call, and reports whether the sandbox shows it. A path
// relative to an open directory of the sandbox needs no translation.
func (c *call) path(dirfd int32, arg int) (path string, covers bool) {
	path, err := c.text(c.Args[arg])
	if err != nil || !may(path) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		if dirfd != unix.AT_FDCWD {
			return "", false
		}
		path = filepath.Join(c.directory(), path)
	}
	path = filepath.Clean(path)
	return path, covered(path)
}

// behind returns the place where the sandbox keeps the file that it shows at a path.
func (c *call) behind(path string) string { return c.machine().behind(path) }

// machine is the one that the process runs on.
func (c *call) machine() *machine {
	return c.hosts[hostNumber(c.getenv(hostVariable), len(c.hosts))-1]
}
