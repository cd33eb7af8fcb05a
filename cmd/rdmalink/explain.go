package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// explainAdd turns the errno of a link that was not added into what to do.
// Which errno means what was found on 6.1 and 6.12.
func (t *tool) explainAdd(name, typ string, dev host.Netdev, err error) error {
	var why string
	switch {
	case errors.Is(err, netlinkrdma.ErrInvalidName):
		return err
	case errors.Is(err, syscall.EPERM) && typ == "rxe" && dev.VLAN:
		why = fmt.Sprintf("rxe takes no VLAN device such as %s: add it on the device below", dev.Name)
	case errors.Is(err, syscall.ENFILE):
		why = fmt.Sprintf("the name %s is taken: choose another, or rdmalink del %s", name, name)
	case errors.Is(err, syscall.EEXIST):
		why = t.alreadyOn(typ, dev)
	case errors.Is(err, syscall.EINVAL):
		why = unknownType(typ, dev)
	case errors.Is(err, syscall.ENOENT) && typ == "rxe":
		why = "rxe misses the kernel's crc32: modprobe crc32_generic"
	case errors.Is(err, syscall.ENODEV):
		why = fmt.Sprintf("network device %s went away", dev.Name)
	default:
		return err
	}
	return fmt.Errorf("add %s: %s (%w)", name, why, errnoOf(err))
}

// alreadyOn says which link of the same type the network device has.
func (t *tool) alreadyOn(typ string, dev host.Netdev) string {
	why := fmt.Sprintf("%s already has a link of type %s, and can have one only", dev.Name, typ)
	ports, err := t.allPorts()
	if err != nil {
		return why
	}
	for _, p := range ports {
		if p.NetdevName == dev.Name {
			why += fmt.Sprintf("; on it there is %s", p.DeviceName)
		}
	}
	return why
}

// unknownType: the kernel has asked for the module itself by now, and says
// EINVAL as well for a network device the driver can't use.
func unknownType(typ string, dev host.Netdev) string {
	asked := fmt.Sprintf("the kernel has no link type %q and found no module rdma-link-%s for it, or the driver does not take %s", typ, typ, dev.Name)
	switch typ {
	case "siw":
		return asked + ". Try: modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)"
	case "rxe":
		return asked + ". Try: modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)"
	}
	return asked + ". The types are siw and rxe"
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
