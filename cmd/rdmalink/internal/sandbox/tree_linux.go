package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goverbs/goverbs/verbs"
)

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
