package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
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

// may reports whether the sandbox may show a path that is not clean yet. It is a quick check.
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
func (c *call) behind(path string) string {
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
	return c.hosts[hostNumber(c.getenv(hostVariable), len(c.hosts))-1]
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
		return resume
	}
	if is, ok := c.machine().nodes[path]; ok && flags&unix.O_PATH == 0 {
		return c.openNode(is, flags)
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
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlink(c.behind(path), b)
	if err != nil {
		return failed(err)
	}
	n = min(n, int(c.Args[arg+2]))
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
	if f := c.machine().fabric; f != nil {
		if p := f.ports[is]; is == p.umad {
			return c.openUmad(p, flags)
		} else {
			return c.openISSM(p, flags)
		}
	}
	if is.major != verbsNode(0).major {
		return result{errno: syscall.ENXIO}
	}
	return c.openDevice(is, flags)
}

// plant creates the files in which processes read about devices.
func (m *machine) plant() error {
	files := map[string]string{
		"/sys/class/infiniband_verbs/abi_version": "6",
		"/sys/class/misc/rdma_cm/abi_version":     strconv.Itoa(cmABI),
		"/sys/class/misc/rdma_cm/dev":             fmt.Sprintf("%d:%d", cmNode.major, cmNode.minor),
	}
	m.device.plant(files)
	files["/sys/class/infiniband/"+m.device.Name+"/"+AddressFile] = m.addr.String()
	for path := range m.nodes {
		files[path] = ""
	}
	for path, text := range files {
		path = m.behind(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if text != "" {
			text += "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (d verbsDevice) plant(files map[string]string) {
	verbs, ib := "/sys/class/infiniband_verbs/"+d.name()+"/", "/sys/class/infiniband/"+d.Name+"/"
	is := verbsNode(d.n)
	files[verbs+"abi_version"] = strconv.FormatUint(d.char.ABI, 10)
	files[verbs+"dev"] = fmt.Sprintf("%d:%d", is.major, is.minor)
	files[verbs+"ibdev"] = d.Name
	files[ib+"node_type"] = nodeType(d.NodeType)
	files[ib+"node_guid"] = colons(d.NodeGUID)
	files[ib+"sys_image_guid"] = colons(d.SysImageGUID)
	files[ib+"fw_ver"] = d.FWVersion
	files[ib+"node_desc"] = d.Name
	for port := range d.Ports {
		d.plantPort(files, fmt.Sprintf("%sports/%d/", ib, port+1))
	}
}

func (d verbsDevice) plantPort(files map[string]string, dir string) {
	for name, text := range map[string]string{
		"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "2.5 Gb/sec (1X SDR)", "link_layer": "Ethernet",
		"lid": "0x0", "lid_mask_count": "0", "sm_lid": "0x0", "sm_sl": "0", "cap_mask": "0x00010000",
	} {
		files[dir+name] = text
	}
	if d.NodeType == verbs.NodeCA {
		files[dir+"pkeys/0"] = "0xffff"
	}
}

func nodeType(t verbs.NodeType) string {
	if t == verbs.NodeRNIC {
		return "4: RNIC"
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
