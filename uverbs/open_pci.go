package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// OpenPCI opens the RDMA device of a PCI function, such as "0000:3b:00.0"; without a
// domain, 0000 is meant. It reads sysfs. Software devices have no PCI address.
func OpenPCI(address string) (*Device, error) {
	name, err := pciDevice("/sys", address)
	if err != nil {
		return nil, err
	}
	return Open(name)
}

// pciDevice is the name of the RDMA device of a PCI function, the first if there are
// several.
func pciDevice(root, address string) (string, error) {
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	functions := filepath.Join(root, "bus/pci/devices")
	entries, err := os.ReadDir(filepath.Join(functions, strings.ToLower(address), "infiniband"))
	if err == nil && len(entries) > 0 {
		return entries[0].Name(), nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = verbs.ErrNoDevice
	}
	return "", &Error{Op: "open", Object: "device at PCI address " + address, Err: err, Hint: havePCI(functions)}
}

func havePCI(functions string) string {
	with, _ := filepath.Glob(filepath.Join(functions, "*/infiniband"))
	if len(with) == 0 {
		return "no PCI function has an RDMA device"
	}
	var addresses []string
	for _, dir := range with {
		addresses = append(addresses, filepath.Base(filepath.Dir(dir)))
	}
	slices.Sort(addresses)
	return "RDMA devices are at " + strings.Join(addresses, ", ")
}
