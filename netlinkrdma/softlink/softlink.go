// Package softlink makes sure that a machine has an RDMA device in software, for instance in CI or at the start of a
// development machine.
//
// The shortest whole program makes 127.0.0.1 an address for RDMA:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/netlinkrdma"
//		"github.com/goverbs/goverbs/netlinkrdma/softlink"
//	)
//
//	func main() {
//		changes, err := softlink.EnsureLink(new(netlinkrdma.Client), "siw0", "siw", "lo")
//		for _, c := range changes {
//			fmt.Println(c)
//		}
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
package softlink

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// EnsureLink makes sure that there is a software RDMA device called name, of the type "siw" or "rxe", on the network
// device netdev, by which rdma_cm can connect. It does nothing if such a device is there.
//
// If netdev lacks something, EnsureLink sets it first: an IP address outside 127/8, the up state, and for siw on lo a
// hardware address. It returns each change with the command that undoes it, in words for a log. If the device can't be
// added, it undoes the changes. It replaces a siw device that is on lo while that has no hardware address, because no
// connection is possible through it. rdma_cm can't connect through rxe on lo.
//
// The call needs CAP_NET_ADMIN in the initial user namespace. Its errors are those of [netlinkrdma.Client.AddLink]; one
// about a device of this name on another network device, or of another type, matches syscall.EEXIST.
//
// C: rdma link add NAME type TYPE netdev NETDEV
func EnsureLink(c *netlinkrdma.Client, name, typ, netdev string) (changes []string, err error) {
	return ensure(c, addlink.Kernel, name, typ, netdev)
}

func ensure(c *netlinkrdma.Client, nets addlink.Netdevs, name, typ, netdev string) ([]string, error) {
	changes, err := ensureOn(c, nets, name, typ, netdev)
	if err != nil {
		return nil, &verbs.Error{Op: "ensure link", Object: fmt.Sprintf("%s of type %s on %s", name, typ, netdev), Err: err}
	}
	return changes, nil
}

func ensureOn(c *netlinkrdma.Client, nets addlink.Netdevs, name, typ, netdev string) ([]string, error) {
	all, err := nets.List()
	if err != nil {
		return nil, &verbs.Error{Op: "list", Object: "network devices", Err: err}
	}
	i := slices.IndexFunc(all, func(d addlink.Netdev) bool { return d.Name == netdev })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no such network device in this network namespace", syscall.ENODEV)
	}
	there, err := isThere(c, name, typ, netdev)
	switch {
	case err != nil:
		return nil, err
	case there && !all[i].LacksMAC(typ):
		return addlink.Repair(nets, typ, all[i])
	case there:
		if err := addlink.Delete(c, name); err != nil {
			return nil, err
		}
	}
	return addlink.AddReady(c, nets, name, typ, all[i])
}

// protocols has the protocol of each type of link.
var protocols = map[string]string{"siw": "iw", "rxe": "roce"}

// isThere reports whether the link exists. Its error says that another device has the name.
func isThere(c *netlinkrdma.Client, name, typ, netdev string) (bool, error) {
	d, err := c.DeviceByName(name)
	if errors.Is(err, netlinkrdma.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	port, err := c.Port(d.Index, 1)
	if err != nil {
		return false, err
	}
	if port.NetdevName != netdev || d.Protocol != protocols[typ] {
		return false, fmt.Errorf("%w: the device %s is on %q, and of protocol %s", syscall.EEXIST, name, port.NetdevName, d.Protocol)
	}
	return true, nil
}
