package perf

import (
	"fmt"
	"os"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cacheLine is how far apart small messages are, in bytes.
const cacheLine = 64

// Fits returns an error for options that exceed the limits of a device.
func Fits(o Options, dev *uverbs.Device) error {
	o.setDefaults()
	_, err := o.fit(dev)
	return err
}

// fit completes the options with the limits of a device and its port, and returns
// an error for options that exceed them.
func (o *Options) fit(dev *uverbs.Device) (*verbs.PortAttr, error) {
	name := dev.Info().Name
	attr, err := dev.Query()
	if err != nil {
		return nil, err
	}
	port, err := dev.QueryPort(o.Port)
	if err != nil {
		return nil, fmt.Errorf("-i %d (%s has %d): %w", o.Port, name, attr.PhysPortCnt, err)
	}
	if port.State != verbs.PortActive {
		return nil, fmt.Errorf("port %d of %s is %v: is the link up (ip link set up)?", o.Port, name, port.State)
	}
	if o.Link != 0 && o.Link != port.LinkLayer {
		return nil, fmt.Errorf("--force-link: the port of %s is %v: give another -d or -i", name, port.LinkLayer)
	}
	if o.MTU > port.ActiveMTU {
		return nil, fmt.Errorf("-m %d: the MTU of %s's port is %d", o.MTU.Bytes(), name, port.ActiveMTU.Bytes())
	}
	or(&o.MTU, port.ActiveMTU)
	if o.Type != verbs.QPTypeUD && int64(o.Size) > int64(port.MaxMsgSize) {
		return nil, fmt.Errorf("-s %d: %s sends %d bytes at most", o.Size, name, port.MaxMsgSize)
	}
	return port, o.within(name, attr, dev.Info().NodeType == verbs.NodeRNIC)
}

// within compares with the limits of the device.
func (o *Options) within(name string, attr *verbs.DeviceAttr, iWARP bool) error {
	mostWRs := int(attr.MaxQPWR) - creditRoom
	switch {
	case iWARP && o.Type != verbs.QPTypeRC:
		return fmt.Errorf("-c %v: %s is iWARP, which has RC only: %w", o.Type, name, verbs.ErrNotSupported)
	case o.Verb == perftest.Atomic && attr.AtomicCap == verbs.AtomicNone:
		return fmt.Errorf("%s has no atomics: %w", name, verbs.ErrNotSupported)
	case o.TxDepth > mostWRs:
		return fmt.Errorf("-t %d: %s takes %d sends of a QP at most", o.TxDepth, name, mostWRs)
	case o.RxDepth > mostWRs && o.Type != verbs.QPTypeRC:
		o.RxDepth = mostWRs // the default depth of lossy services, not one that the user chose
	case o.RxDepth > mostWRs:
		return fmt.Errorf("-r %d: %s takes %d receives of a QP at most", o.RxDepth, name, mostWRs)
	}
	most := int(min(attr.MaxQPRDAtom, attr.MaxQPInitRDAtom, 255))
	switch {
	case o.Verb != perftest.Read && o.Verb != perftest.Atomic:
		o.OutReads = 1
	case o.OutReads > most:
		return fmt.Errorf("-o %d: %s has %d READs and atomics in flight at most", o.OutReads, name, most)
	case o.OutReads == 0:
		o.OutReads = most
	}
	return nil
}

// system returns the properties of this host that the peer needs.
func (o *Options) system() perftest.System {
	return perftest.System{CycleBuffer: os.Getpagesize(), CacheLine: cacheLine, MTU: o.MTU}
}

// agree computes the options that both ends support. A datagram is one packet.
//
// C: check_mtu
func (o *Options) agree(sys perftest.System, asked bool) error {
	o.MTU = sys.MTU
	if o.Type != verbs.QPTypeUD || o.Size <= o.MTU.Bytes() {
		return nil
	}
	if asked {
		return fmt.Errorf("-s %d: a datagram holds %d bytes, the smaller MTU of the two ports", o.Size, o.MTU.Bytes())
	}
	o.Size = o.MTU.Bytes()
	return nil
}
