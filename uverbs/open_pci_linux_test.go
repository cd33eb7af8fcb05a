package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

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
