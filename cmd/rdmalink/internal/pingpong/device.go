package pingpong

import (
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/verbs"
)

// open opens the device of -d, or the first suitable one.
func (p *session) open() (*end, error) { return peer.OpenDevice(p.device, p.prepare) }

// fits compares the options with the limits of device and port.
func (p *session) fits(e *end) (err error) {
	name := e.dev.Info().Name
	if e.dev.Info().NodeType == verbs.NodeRNIC {
		return fmt.Errorf("%s: %w: use rdmalink rping there", name, peer.ErrOnlyCM)
	}
	attr, err := e.dev.Query()
	if err != nil {
		return err
	}
	if e.port, err = e.dev.QueryPort(uint32(p.ibPort)); err != nil {
		return fmt.Errorf("-i %d (%s has %d): %w", p.ibPort, name, attr.PhysPortCnt, err)
	}
	return p.misfit(name, e.port, attr)
}

// misfit returns the error for options that exceed the limits of a device or its
// port.
func (p *session) misfit(name string, port *verbs.PortAttr, attr *verbs.DeviceAttr) error {
	mtu := port.ActiveMTU.Bytes()
	switch most := p.mostReceives(attr); {
	case port.State != verbs.PortActive:
		return fmt.Errorf("port %d of %s is %v: is the link up (ip link set up)?", p.ibPort, name, port.State)
	case p.kind.qpType == verbs.QPTypeUD && p.size > mtu:
		return fmt.Errorf("-s %d: a datagram over %s holds %d bytes, its port's MTU", p.size, name, mtu)
	case p.kind.qpType != verbs.QPTypeUD && p.mtu > port.ActiveMTU:
		return fmt.Errorf("-m %d: the MTU of %s's port is %d; give -m %[3]d, here and to the peer", p.mtu.Bytes(), name, mtu)
	case int64(p.size) > int64(port.MaxMsgSize):
		return fmt.Errorf("-s %d: %s sends %d bytes at most", p.size, name, port.MaxMsgSize)
	case p.rxDepth > most:
		return fmt.Errorf("-r %d: %s takes %d receives at most", p.rxDepth, name, most)
	case p.odp && !p.canODP(attr.ODP):
		return fmt.Errorf("-o: %s has no on-demand paging for this: %w", name, verbs.ErrNotSupported)
	}
	return nil
}

// mostReceives is bounded by the CQ as well, which has a place for a send of
// each QP.
func (p *session) mostReceives(attr *verbs.DeviceAttr) int {
	most := attr.MaxQPWR
	if p.kind.srq {
		most = attr.MaxSRQWR
	}
	return min(int(most), int(attr.MaxCQE)-p.qpCount)
}

func (p *session) canODP(caps verbs.ODPCaps) bool {
	need := verbs.ODPSend | verbs.ODPRecv
	if p.kind.srq {
		need = verbs.ODPSend | verbs.ODPSRQRecv
	}
	return caps.General&verbs.ODPSupport != 0 && caps.RC&need == need
}
