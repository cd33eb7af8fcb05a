package pingpong

import (
	"errors"
	"fmt"
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is one end: the objects that it works with.
//
// C: struct pingpong_context
type end struct {
	*uverbs.Endpoint
	dev  *uverbs.Device
	port *verbs.PortAttr
	mr   *uverbs.MR  // one message, preceded by the space that a receive needs in front of it
	srq  *uverbs.SRQ // nil, or in the QPs' place for receives
	ah   *uverbs.AH  // the way to the peer, for datagrams
	qps  []*uverbs.QP
}

// Close closes all objects and the device.
func (e *end) Close() (err error) {
	if e.Endpoint != nil {
		err = e.Endpoint.Close()
	}
	return errors.Join(err, e.dev.Close())
}

// prepare creates all objects on a device. It closes the device on failure.
func (p *session) prepare(dev *uverbs.Device) (*end, error) {
	e := &end{dev: dev}
	for _, step := range []func(*end) error{p.fits, p.makeMemory, p.makePairs} {
		if err := step(e); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

func (p *session) makeMemory(e *end) (err error) {
	if e.Endpoint, err = e.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: p.rxDepth + p.qpCount}); err != nil {
		return err
	}
	access := verbs.AccessLocalWrite
	if p.odp {
		access |= verbs.AccessOnDemand
	}
	if e.mr, err = e.PD.AllocMR(p.kind.front+p.size, access, nil); err != nil {
		return err
	}
	fill(e.mr.Bytes())
	if p.prefetch {
		return e.PD.AdviseMR(verbs.MRPrefetchWrite, true, []verbs.SGE{e.mr.SGE(0, e.mr.Len())})
	}
	return nil
}

func (p *session) makePairs(e *end) (err error) {
	opts := &uverbs.QPOptions{Type: p.kind.qpType, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}
	if p.kind.srq {
		if e.srq, err = e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: uint32(p.rxDepth), MaxSGE: 1}); err != nil {
			return err
		}
		opts.SRQ = e.srq
	} else {
		opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = uint32(p.rxDepth), 1
	}
	for range p.qpCount {
		qp, err := e.CreateQP(opts)
		if err != nil {
			return err
		}
		e.qps = append(e.qps, qp)
		if err := qp.Init(&verbs.QPAttr{Port: p.ibPort, QKey: qkey}); err != nil {
			return err
		}
	}
	return nil
}

// open opens the device of -d, or the first suitable one.
func (p *session) open() (*end, error) { return peer.OpenDevice(p.device, p.prepare) }

// fits compares the options with the limits of device and port.
func (p *session) fits(e *end) (err error) {
	name := e.dev.Info().Name
	if e.dev.Info().NodeType == verbs.NodeRNIC {
		return fmt.Errorf("%s: %w: use rdmalink rping there", name, peer.ErrOnlyCM)
	}
	attr, err := e.dev.QueryDevice()
	if err != nil {
		return err
	}
	if e.port, err = e.dev.QueryPort(p.ibPort); err != nil {
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

// mostReceives returns the largest number of receives. The CQ also limits it,
// because it needs room for a send of each QP.
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

// connect connects each QP to its counterpart.
//
// C: pp_connect_ctx
func (p *session) connect(e *end, local, remote []addr, sgid uint32) (err error) {
	if e.port.GRHRequired && remote[0].gid == (verbs.GID{}) {
		return fmt.Errorf("the peer sent no GID, which %s needs: start the peer with -g and the index of a GID", e.dev.Info().Name)
	}
	for i, qp := range e.qps {
		attr := &verbs.QPAttr{PathMTU: p.mtu, DestQPN: remote[i].qpn, RQPSN: remote[i].psn, SQPSN: local[i].psn, AH: p.path(remote[i], sgid)}
		if err := qp.Connect(attr); err != nil {
			return err
		}
	}
	if p.kind.qpType != verbs.QPTypeUD {
		return nil
	}
	path := p.path(remote[0], sgid)
	e.ah, err = e.PD.CreateAH(&path)
	return err
}

// path returns the path to the peer. C sends connected traffic with a hop limit of 1.
func (p *session) path(remote addr, sgid uint32) verbs.AHAttr {
	attr := verbs.AHAttr{DLID: remote.lid, SL: uint8(p.sl), Port: p.ibPort}
	if remote.gid != (verbs.GID{}) {
		attr.Global, attr.DGID, attr.SGIDIndex, attr.HopLimit = true, remote.gid, sgid, 64
	}
	return attr
}

// fillPingpong writes the content of a buffer before anything is received.
func fill(b []byte) {
	for i := range b {
		b[i] = 0x7b
	}
}

// markPingpong writes the client's message for -c: as C, 0 at the start of each
// page.
func mark(message []byte) {
	for i := 0; i < len(message); i += os.Getpagesize() {
		message[i] = 0
	}
}

// check verifies the client's pattern in the last message received: at the server
// the one that the client sent, at the client the one that the server returned. C
// only prints an error; here the program fails as well.
func (r *report) check(message []byte) error {
	bad := 0
	for i := 0; i < len(message); i += os.Getpagesize() {
		if message[i] == 0 {
			continue
		}
		bad++
		if err := r.print("invalid data in page %d\n", i/os.Getpagesize()); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("-c: invalid data in %d of %d pages; the client needs -c as well", bad, (len(message)-1)/os.Getpagesize()+1)
	}
	return nil
}
