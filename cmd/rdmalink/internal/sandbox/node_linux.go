package sandbox

import "golang.org/x/sys/unix"

// node is the type and number that stat(2) returns for a file, instead of those of the
// file behind it.
type node struct {
	mode         uint32
	major, minor uint32
}

// The nodes of the kernel's files.
var (
	cmNode     = node{unix.S_IFCHR | 0o666, 10, 58}
	socketNode = node{unix.S_IFSOCK | 0o777, 0, 0}
)

// verbsNode is the node of the n-th device.
func verbsNode(n uint32) node { return node{unix.S_IFCHR | 0o666, 231, 192 + n} }

func (n node) rdev() uint64 { return unix.Mkdev(n.major, n.minor) }

func (n node) stat(st *unix.Stat_t) {
	st.Mode, st.Rdev, st.Size = n.mode, n.rdev(), 0
}

func (n node) statx(st *unix.Statx_t) {
	st.Mode, st.Rdev_major, st.Rdev_minor, st.Size = uint16(n.mode), n.major, n.minor, 0
}
