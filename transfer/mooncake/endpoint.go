package mooncake

import (
	"cmp"
	"fmt"
	"net"
	"sync"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	defaultPairs = 2  // queue pairs of a connection
	readsAtATime = 16 // nodes in C++ neither announce another number nor ask for it
	hopLimit     = 64
	devicePort   = 1
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

// place is what a peer has to know of a device.
type place struct {
	gid   *verbs.GIDEntry
	lid   uint16
	reads uint8 // outstanding READs that the device serves and issues
}

// locate chooses the GID of a device. It is of the family of the peer's GID, unless that is zero.
func locate(cfg *oob.Config, peer verbs.GID) (*place, error) {
	dev := cfg.PD.Device()
	port, err := dev.QueryPort(devicePort)
	if err != nil {
		return nil, err
	}
	attr, err := dev.Attr()
	if err != nil {
		return nil, err
	}
	var choice uverbs.GIDChoice
	if cfg.GID != nil {
		choice = *cfg.GID
	}
	l := &place{reads: uint8(min(readsAtATime, max(attr.MaxQPRDAtom, 1), max(attr.MaxQPInitRDAtom, 1)))}
	if port.LinkLayer == verbs.LinkEthernet {
		if peer != (verbs.GID{}) {
			choice.IPv4 = peer.Addr().Is4()
			choice.IPv6 = !choice.IPv4
		}
	} else {
		l.lid = port.LID
	}
	l.gid, err = dev.ChooseGID(devicePort, &choice)
	return l, err
}

// endpoint is a connection: some queue pairs between two devices. An initiator uses the first one only.
type endpoint struct {
	cfg   *oob.Config
	place *place
	peers []uint32 // the numbers of the peer's queue pairs

	number uint64 // of a Node's connections, in the order of the requests

	ending conn.Ending

	mu     sync.Mutex // guards the fields below
	qps    []*uverbs.QP
	closed bool
	link   conn.Owned // queue pairs
	verbs  conn.Owned // CQs and their channel
}

// newEndpoint creates n queue pairs, in INIT. The first one has room for slots work requests. cq is for queue pairs
// that are never used, and nil for others.
func newEndpoint(cfg *oob.Config, n, slots int, cq *uverbs.CQ, peer verbs.GID) (*endpoint, error) {
	ep := &endpoint{cfg: cfg}
	ep.ending.Init()
	var err error
	if ep.place, err = locate(cfg, peer); err != nil {
		return nil, err
	}
	opts := uverbs.QPOptions{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: uint32(slots), MaxRecvWR: 1}}
	entries := 0
	conn.SetDefaults(&opts, &entries)
	if err := conn.MakeCQs(cfg.PD.Device(), &opts, entries, &ep.verbs, &ep.ending); err != nil {
		_ = ep.Close()
		return nil, err
	}
	for range n {
		if err := ep.addPair(&opts); err != nil {
			_ = ep.Close()
			return nil, err
		}
		opts.Cap.MaxSendWR, opts.SendCQ = 1, opts.RecvCQ // the send CQ ends with its only queue pair
	}
	ep.ending.Begin()
	hook.OnError(ep.qps[0], func(s error) { ep.ending.Fail(fmt.Errorf("the queue pair failed: %w", s)) })
	return ep, nil
}

func (ep *endpoint) addPair(opts *uverbs.QPOptions) error {
	qp, err := ep.cfg.PD.CreateQP(opts)
	if err != nil {
		return err
	}
	ep.qps = append(ep.qps, qp)
	ep.link.Add(qp)
	return qp.Init(&verbs.QPAttr{Port: devicePort, Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite})
}

// describe fills in what the peer has to know of this end.
func (ep *endpoint) describe(h *handshake) {
	h.LID, h.GID = ep.place.lid, formatGID(ep.place.gid.GID)
	for _, qp := range ep.qps {
		h.Pairs = append(h.Pairs, qp.QPN())
	}
}

// connect connects the queue pairs to those of the peer.
func (ep *endpoint) connect(peer *handshake, gid verbs.GID) error {
	ep.peers = peer.Pairs
	for i, qp := range ep.qps {
		attr := &verbs.QPAttr{Port: devicePort, DestQPN: peer.Pairs[i],
			AH: verbs.AHAttr{DLID: peer.LID, Port: devicePort, Global: true, DGID: gid, SGIDIndex: ep.place.gid.Index,
				HopLimit: hopLimit, TrafficClass: ep.cfg.TOS},
			MaxRDAtomic: ep.place.reads, MaxDestRDAtomic: ep.place.reads,
			AckTimeout: ep.cfg.AckTimeout, RetryCnt: uint8(ep.cfg.RetryCount)}
		if err := qp.Connect(attr); err != nil {
			return err
		}
	}
	ep.ending.Establish()
	return nil
}

// QP returns the queue pair for work requests.
func (ep *endpoint) QP() *uverbs.QP { return ep.qps[0] }

// SendCQ returns its CQ.
func (ep *endpoint) SendCQ() *uverbs.CQ { return ep.qps[0].SendCQ() }

// InitiatorDepth returns how many READs it may issue at a time.
func (ep *endpoint) InitiatorDepth() int { return int(ep.place.reads) }

// Err returns the cause of the end, or nil.
func (ep *endpoint) Err() error { return ep.ending.Cause() }

// Disconnect moves the queue pair for work requests to the error state.
func (ep *endpoint) Disconnect() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.closed {
		return net.ErrClosed
	}
	ep.ending.Note(rdmacm.ErrDisconnected)
	err := ep.qps[0].Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
	ep.ending.End(rdmacm.ErrDisconnected)
	return err
}

// Close frees all.
func (ep *endpoint) Close() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.closed = true
	ep.ending.Note(net.ErrClosed)
	err := ep.link.Free()
	ep.ending.End(net.ErrClosed)
	return cmp.Or(err, ep.verbs.Free())
}
