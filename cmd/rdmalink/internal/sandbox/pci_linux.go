package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goverbs/goverbs/internal/abi"
)

// Hardware is behind a bridge in a domain of the sandbox's own, which no machine has. Every host has one
// device, in the same place.
const (
	pciDomain  = "ffff"
	pciRoot    = "/sys/devices/pci" + pciDomain + ":00"
	pciAddress = pciDomain + ":00:01.0"
	pciDevice  = pciRoot + "/" + pciAddress
	pciDrivers = "/sys/bus/pci/drivers/"
)

// card is what sysfs says of a PCI device.
type card struct {
	dir            string // of the PCI device
	driver         string
	vendor, device uint16
	// hca and board are in sysfs only if the driver has these files.
	hca, board string
}

// cards has the devices that are hardware, by their drivers.
var cards = map[uint32]card{
	abi.RDMA_DRIVER_MLX5:  {pciDevice, "mlx5_core", 0x15b3, 0x1019, "MT4121", "MT_0000000008"},
	abi.RDMA_DRIVER_ERDMA: {dir: pciDevice, driver: "erdma", vendor: 0x1ded, device: 0x107f},
	abi.RDMA_DRIVER_EFA:   {dir: pciDevice, driver: "efa", vendor: 0x1d0f, device: 0xefa1},
}

// tree is a part of a file system: the texts of files, and the targets of symbolic links.
type tree struct{ files, links map[string]string }

func newTree() tree { return tree{make(map[string]string), make(map[string]string)} }

// plant creates the files and links. behind returns the place of each.
func (t tree) plant(behind func(path string) string) error {
	for path, text := range t.files {
		path = behind(path)
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
	for path, target := range t.links {
		path = behind(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}

// link adds a symbolic link to another path of the tree. Links of sysfs are relative, and end with the target's name.
func (t tree) link(path, target string) {
	to, _ := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	t.links[path] = filepath.Join(to, filepath.Base(target))
}

// pciBus is the directory with all PCI devices.
const pciBus = "/sys/bus/pci/devices/"

// directories adds the PCI device, if the device is hardware and no profile has added it, and returns where the files
// of the device and of its node are.
func (d *verbsDevice) directories(t tree) (verbs, ib string) {
	classVerbs, classIB := "/sys/class/infiniband_verbs/"+d.name(), "/sys/class/infiniband/"+d.Name
	c := d.card
	if c.dir == "" {
		return classVerbs + "/", classIB + "/"
	}
	verbs, ib = c.dir+"/infiniband_verbs/"+d.name(), c.dir+"/infiniband/"+d.Name
	t.link(classVerbs, verbs)
	t.link(classIB, ib)
	t.link(verbs+"/device", c.dir)
	t.link(ib+"/device", c.dir)
	t.link(c.dir+"/driver", pciDrivers+c.driver)
	t.link(pciDrivers+c.driver+"/"+filepath.Base(c.dir), c.dir)
	if uevent := c.dir + "/uevent"; t.files[uevent] != "" {
		t.files[uevent] = "DRIVER=" + c.driver + "\n" + t.files[uevent]
	} else {
		t.link(pciBus+pciAddress, c.dir)
		for name, text := range map[string]string{
			"vendor": fmt.Sprintf("0x%04x", c.vendor), "device": fmt.Sprintf("0x%04x", c.device),
			"subsystem_vendor": fmt.Sprintf("0x%04x", c.vendor), "subsystem_device": "0x0008",
			"class": "0x020000", "revision": "0x00", "numa_node": "-1",
			"local_cpulist": onlineCPUs(), "max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16",
			"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16",
			"uevent": fmt.Sprintf("DRIVER=%s\nPCI_CLASS=20000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0008\nPCI_SLOT_NAME=%s",
				c.driver, c.vendor, c.device, c.vendor, pciAddress),
		} {
			t.files[c.dir+"/"+name] = text
		}
	}
	if c.hca != "" {
		t.files[ib+"/hca_type"], t.files[ib+"/hw_rev"] = c.hca, "0"
	}
	if c.board != "" {
		t.files[ib+"/board_id"] = c.board
	}
	return verbs + "/", ib + "/"
}
