package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

func sysfs(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "class", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func siw0Files() map[string]string {
	return map[string]string{
		"infiniband_verbs/abi_version": "6", "infiniband_verbs/uverbs0/ibdev": "siw0", "infiniband_verbs/uverbs0/abi_version": "1",
		"infiniband_verbs/uverbs0/dev": "231:192", "infiniband/siw0/node_type": "4: RNIC", "infiniband/siw0/node_guid": "0c76:80ff:febf:e77b",
	}
}

func TestSysfs(t *testing.T) {
	infos, err := devicesFromSysfs(sysfs(t, siw0Files()))
	want := DeviceInfo{Name: "siw0", ABI: 1, NodeType: verbs.NodeRNIC, NodeGUID: 0x0c7680fffebfe77b,
		Node: "/dev/infiniband/uverbs0", rdev: unix.Mkdev(231, 192)}
	if err != nil || len(infos) != 1 || infos[0] != want {
		t.Errorf("%+v, %v", infos, err)
	}
}

func TestSysfsDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"infiniband_verbs/uverbs0/abi_version": "one", "infiniband_verbs/uverbs0/dev": "231", "infiniband_verbs/uverbs0/ibdev": "",
	} {
		files := siw0Files()
		files[name] = text
		if text == "" {
			delete(files, name)
		}
		if infos, err := devicesFromSysfs(sysfs(t, files)); err == nil && len(infos) > 0 {
			t.Errorf("%s is %q: %+v", name, text, infos)
		}
	}
	if _, err := devicesFromSysfs(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no sysfs: %v", err)
	}
}

// TestSysfsUnplugged checks that a device that vanishes while devices are listed does not hide the
// other.
func TestSysfsUnplugged(t *testing.T) {
	files := siw0Files()
	files["infiniband_verbs/uverbs1/dev"] = "231:193"
	infos, err := devicesFromSysfs(sysfs(t, files))
	if err != nil || len(infos) != 1 || infos[0].Name != "siw0" {
		t.Errorf("%+v, %v", infos, err)
	}
}

func TestProbeDriver(t *testing.T) {
	for _, id := range []verbs.DriverID{verbs.DriverSIW, verbs.DriverRXE, verbs.DriverMLX5, verbs.DriverMANA, maxKnownDriver - 1} {
		k := fakeverbs.New(uint32(id))
		if got := probeDriver(k); got != id {
			t.Errorf("%v, want %v", got, id)
		}
	}
	if got := probeDriver(fakeverbs.New(maxKnownDriver)); got != verbs.DriverUnknown {
		t.Errorf("beyond what is known: %v", got)
	}
}

func TestNodeHints(t *testing.T) {
	info := DeviceInfo{Name: "siw0", Node: filepath.Join(t.TempDir(), "uverbs3"), rdev: unix.Mkdev(231, 195), Driver: verbs.DriverSIW}
	if _, err := info.Open(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mknod -m 666 "+info.Node+" c 231 195") {
		t.Error(err)
	}
	info.Node = "/dev/null"
	if _, err := info.Open(); err == nil || !strings.Contains(err.Error(), "stale node") {
		t.Error(err)
	}
	for err, want := range map[error]string{
		syscall.EACCES: "chmod 666 /dev/null", syscall.EPERM: "device cgroup", syscall.EAGAIN: "rdma.max", syscall.EIO: "",
	} {
		if got := nodeHint(err, info); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestMRHints(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: min(64<<10, old.Max), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) }()
	memlock := fmt.Sprintf("RLIMIT_MEMLOCK allows this process %d KiB of pinned memory and the region needs 128 KiB", low.Cur>>10)
	for _, c := range []struct {
		err    error
		access verbs.Access
		want   string
	}{
		{syscall.ENOMEM, 0, memlock},
		{syscall.EPERM, 0, memlock},
		{syscall.EAGAIN, 0, "rdma.max"},
		{syscall.EFAULT, verbs.AccessLocalWrite, "not mapped, or not writable"},
		{syscall.EINVAL, verbs.AccessRemoteWrite, "need AccessLocalWrite too"},
		{syscall.EINVAL, verbs.AccessRemoteAtomic, "need AccessLocalWrite too"},
		{syscall.EINVAL, verbs.AccessRemoteWrite | verbs.AccessLocalWrite, ""},
		{syscall.EINVAL, verbs.AccessRemoteRead, ""},
		{syscall.EIO, 0, ""},
	} {
		if got := noDevice.mrHint(c.err, c.access, 128<<10); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

// TestPCIDevice has a function with a device, and one without.
func TestPCIDevice(t *testing.T) {
	root := t.TempDir()
	if _, err := pciDevice(root, "3b:00.0"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "no PCI function has") {
		t.Error(err)
	}
	for _, dir := range []string{"0000:3b:00.0/infiniband/mlx5_0", "0001:af:00.1/infiniband/mlx5_1", "0000:00:1f.0"} {
		if err := os.MkdirAll(filepath.Join(root, "bus/pci/devices", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for address, want := range map[string]string{"0000:3b:00.0": "mlx5_0", "3B:00.0": "mlx5_0", "0001:af:00.1": "mlx5_1"} {
		if name, err := pciDevice(root, address); name != want || err != nil {
			t.Errorf("%s: %q, %v", address, name, err)
		}
	}
	for _, address := range []string{"0000:00:1f.0", "af:00.1", ""} {
		if name, err := pciDevice(root, address); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "0000:3b:00.0, 0001:af:00.1") {
			t.Errorf("%q: %q, %v", address, name, err)
		}
	}
}
