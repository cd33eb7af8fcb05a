//go:build linux

package rig

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulesDep = `kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet.ko: kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/fs/netfs/netfs.ko:
kernel/arch/x86/crypto/crc32-pclmul.ko.xz:
`

func TestModuleOrder(t *testing.T) {
	files, absent := parseModulesDep(modulesDep).order([]string{"virtio_pci", "9p", "9pnet_virtio", "crc32_pclmul"})
	want := []string{
		"kernel/fs/netfs/netfs.ko", "kernel/net/9p/9pnet.ko", "kernel/fs/9p/9p.ko",
		"kernel/net/9p/9pnet_virtio.ko", "kernel/arch/x86/crypto/crc32-pclmul.ko.xz",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"virtio_pci"}, absent); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
}

func TestModulesRequired(t *testing.T) {
	m := parseModulesDep(modulesDep)
	const builtin = "kernel/drivers/virtio/virtio_pci.ko\n"
	if err := m.required([]string{"9p", "virtio_pci"}, builtin); err != nil {
		t.Error(err)
	}
	if err := m.required([]string{"siw"}, builtin); err == nil {
		t.Error("a module that is nowhere was not missed")
	}
}

// TestWanted checks that a 6.x without siw is not published.
func TestWanted(t *testing.T) {
	for series, siw := range map[string]bool{"6.12": true, "6.1": true, "7.3": false} {
		if got := slices.Contains(wanted(series), "siw"); got != siw {
			t.Errorf("series %s wants siw: %v", series, got)
		}
	}
}
