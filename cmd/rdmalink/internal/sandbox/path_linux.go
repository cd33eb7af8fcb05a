package sandbox

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// shown are the directories that are the sandbox's, and not the machine's.
var shown = []string{
	"/dev/infiniband", "/sys/class/infiniband", "/sys/class/infiniband_cm", "/sys/class/infiniband_mad",
	"/sys/class/infiniband_ucma", "/sys/class/infiniband_verbs", "/sys/class/misc/rdma_cm",
	"/sys/devices/virtual/infiniband", "/sys/devices/virtual/infiniband_verbs",
	pciRoot, "/sys/bus/pci/devices/" + pciDomain + ":00:01.0",
	pciDrivers + "efa", pciDrivers + "erdma", pciDrivers + "mlx5_core",
}

// profileShown are those that are besides with a profile, where the machine has its own PCI devices.
var profileShown = []string{"/sys/bus/pci/devices"}

// covered reports whether an absolute path is in one of the directories, with or without a profile.
func covered(path string, profile bool) bool {
	if profile && strings.HasPrefix(path, pciDomains) {
		return true
	}
	dirs := shown
	if profile {
		dirs = slices.Concat(shown, profileShown)
	}
	for _, s := range dirs {
		if path == s || strings.HasPrefix(path, s) && path[len(s)] == '/' {
			return true
		}
	}
	return false
}

// may reports whether the sandbox may show a path that is not clean yet. It is a quick check.
func may(path string, profile bool) bool {
	return strings.Contains(path, "infiniband") || strings.Contains(path, "rdma_cm") || strings.Contains(path, pciDomain) ||
		strings.Contains(path, "pci/drivers") || profile && strings.Contains(path, "pci")
}

// path reads the path of a call, and reports whether the sandbox has to find it: it shows the path, or the path leads
// out of a directory that it shows. A path may be relative to the root: hwloc opens all files in this way.
func (c *call) path(dirfd int32, arg int) (path string, finds bool) {
	path, err := c.text(c.Args[arg])
	if err != nil || path == "" || filepath.IsAbs(path) && !may(path, c.profile) {
		return "", false
	}
	ours := false
	if !filepath.IsAbs(path) {
		dir := "cwd"
		if dirfd != unix.AT_FDCWD {
			dir = fmt.Sprintf("fd/%d", dirfd)
		}
		dir, ours = c.shownAt(c.directory(dir))
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	return path, ours || covered(path, c.profile)
}

// behind returns the place where the sandbox keeps the file that it shows at a path. Other paths are the machine's.
func (c *call) behind(path string) string {
	if !covered(path, c.profile) {
		return path
	}
	m := c.machine()
	if m.fabric != nil && strings.HasPrefix(path, "/sys/") {
		if err := m.fabric.refresh(); err != nil {
			c.fail(err)
		}
	}
	return m.behind(path)
}

// machine returns the machine that the process runs on.
func (c *call) machine() *machine {
	if c.fabric != nil {
		m, err := c.fabric.machine(c.getenv(hostVariable))
		if err != nil {
			c.fail(err)
			m = &machine{netlink: noDevices{}, tree: c.files.dir}
		}
		return m
	}
	n, err := hostNumber(c.getenv(hostVariable), len(c.hosts))
	if err != nil {
		c.fail(err)
	}
	return c.hosts[n-1]
}

// Each of these carries out a call on a path that the sandbox shows.

func (c *call) open() result   { return c.openPath(unix.AT_FDCWD, 0, int(c.Args[1])) }
func (c *call) openat() result { return c.openPath(c.fd(0), 1, int(c.Args[2])) }

func (c *call) openat2() result {
	how, err := get[unix.OpenHow](c.process, c.Args[2])
	if err != nil {
		return resume
	}
	return c.openPath(c.fd(0), 1, int(how.Flags))
}

func (c *call) openPath(dirfd int32, arg, flags int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		if r, isOne := c.reopen(arg, flags); isOne {
			return r
		}
		return resume
	}
	if is, ok := c.machine().nodes[path]; ok && flags&unix.O_PATH == 0 {
		return c.openNode(is, flags)
	}
	if flags&unix.O_PATH != 0 { // nobody can be given such a descriptor; one for reading can do more
		flags &= unix.O_CLOEXEC | unix.O_DIRECTORY | unix.O_NOFOLLOW
	}
	fd, err := unix.Open(c.behind(path), flags&^(unix.O_CREAT|unix.O_TRUNC)|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return done(c.give(fd, flags&unix.O_CLOEXEC != 0))
}

func (c *call) stat() result  { return c.statPath(unix.AT_FDCWD, 0, 1, 0) }
func (c *call) lstat() result { return c.statPath(unix.AT_FDCWD, 0, 1, unix.AT_SYMLINK_NOFOLLOW) }

func (c *call) fstatat() result {
	if c.itself(0, 1, 3) {
		return c.fstatTo(2)
	}
	return c.statPath(c.fd(0), 1, 2, int(c.Args[3]))
}

// itself reports whether a call refers to one of the sandbox's descriptors instead of a
// path.
func (c *call) itself(fd, path, flags int) bool {
	if int(c.Args[flags])&unix.AT_EMPTY_PATH == 0 || c.fd(fd) < firstFD {
		return false
	}
	name, err := c.text(c.Args[path])
	return name == "" && (err == nil || c.Args[path] == 0)
}

func (c *call) statPath(dirfd int32, arg, to, flags int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return resume
	}
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, c.behind(path), &st, flags&unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed(err)
	}
	if is, ok := c.machine().nodes[path]; ok {
		is.stat(&st)
	}
	return done(0, c.write(c.Args[to], abi.Bytes(&st)))
}

func (c *call) statx() result {
	var st unix.Statx_t
	if c.itself(0, 1, 2) {
		return c.statxFile()
	}
	path, ok := c.path(c.fd(0), 1)
	if !ok {
		return resume
	}
	if err := unix.Statx(unix.AT_FDCWD, c.behind(path), int(c.Args[2]), int(c.Args[3]), &st); err != nil {
		return failed(err)
	}
	if is, ok := c.machine().nodes[path]; ok {
		is.statx(&st)
	}
	return done(0, c.write(c.Args[4], abi.Bytes(&st)))
}

func (c *call) access() result    { return c.accessPath(unix.AT_FDCWD, 0) }
func (c *call) faccessat() result { return c.accessPath(c.fd(0), 1) }

// accessPath only checks that the path exists, because the nodes are accessible to all.
func (c *call) accessPath(dirfd int32, arg int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return resume
	}
	return done(0, unix.Access(c.behind(path), unix.F_OK))
}

func (c *call) readlink() result   { return c.readlinkPath(unix.AT_FDCWD, 0) }
func (c *call) readlinkat() result { return c.readlinkPath(c.fd(0), 1) }

func (c *call) readlinkPath(dirfd int32, arg int) result {
	path, ok := c.path(dirfd, arg)
	if !ok {
		return resume
	}
	size := int(int32(c.Args[arg+2]))
	if size <= 0 {
		return result{errno: syscall.EINVAL}
	}
	b := make([]byte, min(size, unix.PathMax))
	n, err := unix.Readlink(c.behind(path), b)
	if err != nil {
		return failed(err)
	}
	return done(n, c.write(c.Args[arg+1], b[:n]))
}

// xattr answers that files of the sandbox's have no extended attributes, which ls asks for.
func (c *call) xattr() result {
	if _, ok := c.path(unix.AT_FDCWD, 0); !ok {
		return resume
	}
	return result{errno: syscall.EOPNOTSUPP}
}

// openNode opens a device node.
func (c *call) openNode(is node, flags int) result {
	if is == cmNode {
		return c.openCM(flags)
	}
	if f := c.machine().fabric; f != nil && f.ports[is] != nil {
		p := f.ports[is]
		if is == p.issm {
			return c.openISSM(p, flags)
		}
		return c.openUmad(p, flags)
	}
	return c.openDevice(is, flags)
}

// plant creates the files in which processes read about devices.
func (m *machine) plant(p *profile) error {
	t := newTree()
	t.files["/sys/class/infiniband_verbs/abi_version"] = "6"
	t.files["/sys/class/misc/rdma_cm/abi_version"] = strconv.Itoa(cmABI)
	t.files["/sys/class/misc/rdma_cm/dev"] = fmt.Sprintf("%d:%d", cmNode.major, cmNode.minor)
	if p != nil {
		for _, n := range p.pci {
			for name, text := range n.files {
				t.files[n.path+"/"+name] = text
			}
			t.link(pciBus+path.Base(n.path), n.path)
		}
	}
	for _, d := range m.devices {
		t.files[d.plant(t)+AddressFile] = d.own.Addrs()[0].String()
	}
	for path := range m.nodes {
		t.files[path] = ""
	}
	return t.plant(m.behind)
}

// plant adds the files of the device, and returns its directory.
func (d *verbsDevice) plant(t tree) (ib string) {
	verbs, ib := d.directories(t)
	is := verbsNode(d.n)
	t.files[verbs+"abi_version"] = strconv.FormatUint(d.char.ABI, 10)
	t.files[verbs+"dev"] = fmt.Sprintf("%d:%d", is.major, is.minor)
	t.files[verbs+"ibdev"] = d.Name
	t.files[ib+"node_type"] = nodeType(d.NodeType)
	t.files[ib+"node_guid"] = colons(d.NodeGUID)
	t.files[ib+"sys_image_guid"] = colons(d.SysImageGUID)
	t.files[ib+"fw_ver"] = d.FWVersion
	t.files[ib+"node_desc"] = d.Name
	for port := range d.Ports {
		d.plantPort(t, fmt.Sprintf("%sports/%d/", ib, port+1))
	}
	return ib
}

// portUp and portDown are the files of a port that follow its link.
var (
	portUp   = map[string]string{"state": "4: ACTIVE", "phys_state": "5: LinkUp"}
	portDown = map[string]string{"state": "1: DOWN", "phys_state": "3: Disabled"}
)

func (d *verbsDevice) plantPort(t tree, dir string) {
	link, p := "Ethernet", &d.model.Limits.Port
	switch {
	case p.LinkLayer == 0:
		link = "Unknown"
	case d.model.IsInfiniBand():
		link = "InfiniBand"
	}
	for name, text := range map[string]string{
		"rate": d.rate, "link_layer": link,
		"lid": fmt.Sprintf("0x%x", p.Lid), "lid_mask_count": strconv.Itoa(int(p.Lmc)), "sm_lid": "0x0", "sm_sl": "0", "cap_mask": "0x00010000",
	} {
		t.files[dir+name] = text
	}
	for name, text := range portUp {
		t.files[dir+name] = text
	}
	if d.NodeType != verbs.NodeRNIC {
		t.files[dir+"pkeys/0"] = "0xffff"
	}
	for i, gid := range d.model.GIDs() {
		t.files[fmt.Sprintf("%sgids/%d", dir, i)] = gidText(gid)
		t.files[fmt.Sprintf("%sgid_attrs/types/%d", dir, i)] = d.gidType()
	}
}

// gidType returns the type of all GIDs of the device, as sysfs has it.
func (d *verbsDevice) gidType() string {
	if d.model.IsRoCE() {
		return "RoCE v2"
	}
	return "IB/RoCE v1"
}

// gidText writes a GID as sysfs does.
func gidText(g verbs.GID) string {
	var words [8]string
	for i := range words {
		words[i] = fmt.Sprintf("%02x%02x", g[2*i], g[2*i+1])
	}
	return strings.Join(words[:], ":")
}

func nodeType(t verbs.NodeType) string {
	switch t {
	case verbs.NodeRNIC:
		return "4: RNIC"
	case verbs.NodeUnspecified:
		return "7: unspecified"
	}
	return "1: CA"
}

// colons writes a GUID as sysfs does.
func colons(g verbs.GUID) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint64(g)>>48, uint64(g)>>32&0xffff, uint64(g)>>16&0xffff, uint64(g)&0xffff)
}

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

// verbsNode returns the node of the n-th device.
func verbsNode(n uint32) node { return node{unix.S_IFCHR | 0o666, 231, 192 + n} }

func (n node) rdev() uint64 { return unix.Mkdev(n.major, n.minor) }

func (n node) stat(st *unix.Stat_t) {
	st.Mode, st.Rdev, st.Size = n.mode, n.rdev(), 0
}

func (n node) statx(st *unix.Statx_t) {
	st.Mode, st.Rdev_major, st.Rdev_minor, st.Size = uint16(n.mode), n.major, n.minor, 0
}
