package uverbs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// OpenNetdev opens the RDMA device that has a port on the network interface of that name,
// such as "eth0", and returns the port's number. Only netlink knows interfaces. VLANs and
// bonds have no device of their own: give the interface below, or open the device of an
// address with rdmacm.OpenDevice.
func OpenNetdev(name string) (*Device, uint32, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, 0, err
	}
	var have []string
	for _, info := range infos {
		ports, err := (&netlinkrdma.Client{Kernel: info.listedBy}).Ports(info.Index)
		skipped = errors.Join(skipped, err)
		for _, p := range ports {
			if p.NetdevName == name {
				d, err := info.Open()
				return d, p.Index, err
			}
			if p.NetdevName != "" {
				have = append(have, fmt.Sprintf("%s (%s)", p.NetdevName, info.Name))
			}
		}
	}
	hint := haveDevices(infos)
	if len(have) > 0 {
		hint = "RDMA devices are on " + strings.Join(have, ", ")
	}
	return nil, 0, &Error{Op: "open", Object: "device on " + name, Err: errors.Join(verbs.ErrNoDevice, skipped), Hint: hint}
}
