package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// devicesFromSysfs lists the devices as sysfs at root shows them: less than
// netlink tells, but also where a sandbox forbids netlink sockets.
func devicesFromSysfs(root string) ([]DeviceInfo, error) {
	class := filepath.Join(root, "class/infiniband_verbs")
	entries, err := os.ReadDir(class)
	if err != nil {
		return nil, err
	}
	var infos []DeviceInfo
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "uverbs") {
			continue // the directory has attributes too
		}
		info, err := deviceFromSysfs(root, filepath.Join(class, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // unplugged meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func deviceFromSysfs(root, dir string) (DeviceInfo, error) {
	attr := sysfsReader{}
	info := DeviceInfo{Name: attr.text(dir, "ibdev"), Node: "/dev/infiniband/" + filepath.Base(dir)}
	info.ABI = uint32(attr.number(dir, "abi_version", 10))
	major, minor, _ := strings.Cut(attr.text(dir, "dev"), ":")
	ma, errMajor := strconv.ParseUint(major, 10, 32)
	mi, errMinor := strconv.ParseUint(minor, 10, 32)
	if attr.err == nil && (errMajor != nil || errMinor != nil) {
		return info, fmt.Errorf("%s/dev: %s:%s is no device number", dir, major, minor)
	}
	info.rdev = makedev(uint32(ma), uint32(mi))
	ib := filepath.Join(root, "class/infiniband", info.Name)
	nodeType, _, _ := strings.Cut(attr.text(ib, "node_type"), ":")
	if n, err := strconv.ParseUint(nodeType, 10, 8); err == nil {
		info.NodeType = verbs.NodeType(n)
	}
	guid, err := strconv.ParseUint(strings.ReplaceAll(attr.text(ib, "node_guid"), ":", ""), 16, 64)
	if err == nil {
		info.NodeGUID = verbs.GUID(guid)
	}
	return info, attr.err
}

// sysfsReader reads attribute files and remembers the first error.
type sysfsReader struct{ err error }

func (r *sysfsReader) text(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil && r.err == nil {
		r.err = err
	}
	return strings.TrimSpace(string(b))
}

func (r *sysfsReader) number(dir, name string, base int) uint64 {
	s := r.text(dir, name)
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s/%s: %q is no number", dir, name, s)
	}
	return n
}
