package perf

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// qKey is the Q_Key of perftest's datagram QPs, also of SRD.
//
// C: DEF_QKEY
const qKey = 0x11111111

// dcKey is the key of perftest's DCTs.
//
// C: DC_KEY
const dcKey = 0xffeeddcc

// TCPPath is the path to a peer without a connection manager: control messages use a
// TCP connection. The addresses have perftest's format among them, so TCPPath connects queue
// pairs itself, and not by package oob.
type TCPPath struct {
	conn *watchedConn
	dev  *uverbs.Device
	gid  *verbs.GIDEntry // nil on InfiniBand, which has its LID
}

// OverTCP returns the path over conn, from a device's port with this GID. The caller keeps
// ownership of device and connection.
func OverTCP(conn net.Conn, dev *uverbs.Device, gid *verbs.GIDEntry) *TCPPath {
	return &TCPPath{conn: &watchedConn{Conn: conn, in: bufio.NewReader(conn)}, dev: dev, gid: gid}
}

func (p *TCPPath) device() *uverbs.Device { return p.dev }

func (p *TCPPath) session(o *Options) *perftest.Session {
	test := o.Test
	test.LIDOnly = p.gid == nil
	return perftest.OverTCP(p.conn, o.Role, test)
}

// makePairs creates the QPs and moves them to INIT, or targets to RTR.
func (p *TCPPath) makePairs(_ context.Context, _ *perftest.Session, e *end) (err error) {
	opts := e.qpOptions()
	init := verbs.QPAttr{Port: e.Port, PKeyIndex: e.PKeyIndex, QKey: qKey, Access: e.access(false) &^ verbs.AccessLocalWrite}
	for _, f := range e.flows {
		if e.initiates() {
			if f.qp, err = e.PD.CreateQP(&opts); err != nil {
				return err
			}
			if err := f.qp.Init(&init); err != nil {
				return err
			}
		}
		if e.answers() {
			if err := p.makeTarget(e, f, &init); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *TCPPath) makeTarget(e *end, f *flow, init *verbs.QPAttr) (err error) {
	if f.srq, err = e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: uint32(max(e.RxDepth, 1)), MaxSGE: 1}); err != nil {
		return err
	}
	f.target, err = e.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: e.recvCQ, SRQ: f.srq, DCKey: dcKey})
	if err != nil {
		return err
	}
	if err := f.target.Init(init); err != nil {
		return err
	}
	return f.target.Connect(&verbs.QPAttr{PathMTU: e.MTU, AH: p.path(e, &perftest.Endpoint{})})
}

// qps returns the QPs in the order in which the ends exchange their addresses: targets after initiators.
//
// C: set_up_connection
func (e *end) qps() (all []*uverbs.QP) {
	for _, f := range e.flows {
		if f.qp != nil {
			all = append(all, f.qp)
		}
	}
	for _, f := range e.flows {
		if f.target != nil {
			all = append(all, f.target)
		}
	}
	return all
}

// endpoints returns the addresses of the QPs, for the peer.
func (e *end) endpoints(gid *verbs.GIDEntry) []perftest.Endpoint {
	qps := e.qps()
	all := make([]perftest.Endpoint, len(qps))
	for i, qp := range qps {
		all[i] = perftest.Endpoint{LID: e.port.LID, OutReads: uint16(e.OutReads), QPN: qp.QPN(), PSN: rand.Uint32N(1 << 24),
			RKey: e.mr.RKey(), VAddr: e.mr.Addr() + uint64(e.front+i%e.QPCount*e.part)}
		if gid != nil {
			all[i].GID = gid.GID
		}
		if e.creditMR != nil {
			all[i].RKey, all[i].VAddr = e.creditMR.RKey(), e.creditMR.Addr()+uint64((e.QPCount+i)*creditSize)
		}
	}
	return all
}

func (p *TCPPath) endpoints(e *end) []perftest.Endpoint { return e.endpoints(p.gid) }

// connect connects each QP that sends to its counterpart.
//
// C: ctx_connect
func (p *TCPPath) connect(e *end, local, remote []perftest.Endpoint) error {
	if err := p.sameFamily(remote[0].GID); err != nil {
		return err
	}
	for i, f := range e.flows {
		if f.qp == nil {
			return nil // the targets are connected
		}
		attr := p.connected(e, &local[i], &f.peer)
		if err := f.qp.Connect(attr); err != nil {
			return err
		}
		if !e.addressed() {
			continue
		}
		ah, err := e.PD.CreateAH(&attr.AH)
		if err != nil {
			return err
		}
		f.to = datagramPeer{ah, f.peer.QPN, qKey, dcKey}
	}
	return nil
}

// connected returns the attributes of a QP's counterpart. The counterpart may
// support more READs than a QP attribute can hold.
func (p *TCPPath) connected(e *end, local, remote *perftest.Endpoint) *verbs.QPAttr {
	return &verbs.QPAttr{PathMTU: e.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN, SQPSN: local.PSN, AH: p.path(e, remote),
		MaxDestRDAtomic: uint8(local.OutReads), MaxRDAtomic: uint8(min(remote.OutReads, math.MaxUint8)), AckTimeout: qpstate.AckTimeout(e.QPTimeout)}
}

// sameFamily: RoCE sends no IPv4 packet to an IPv6 address.
//
// C: ctx_check_gid_compatibility
func (p *TCPPath) sameFamily(remote verbs.GID) error {
	if p.gid == nil || p.gid.GID.Addr().Is4() == remote.Addr().Is4() {
		return nil
	}
	return fmt.Errorf("the own GID %v and the peer's %v are of different address families: give -x to this end or to the other", p.gid.GID, remote)
}

func (p *TCPPath) path(e *end, remote *perftest.Endpoint) verbs.AHAttr {
	attr := verbs.AHAttr{DLID: cmp.Or(e.DLID, remote.LID), SL: e.SL, Port: e.Port}
	if p.gid != nil {
		attr.Global, attr.DGID, attr.SGIDIndex, attr.HopLimit, attr.TrafficClass = true, remote.GID, p.gid.Index, e.HopLimit, e.TrafficClass
	}
	return attr
}

// watchedConn is a connection on which one can wait for the peer to say
// something, without taking it.
type watchedConn struct {
	net.Conn
	in *bufio.Reader
}

func (c *watchedConn) Read(b []byte) (int, error) { return c.in.Read(b) }

// Leave sends the peer the reason why this end fails. The connection can only be
// closed after that.
func (p *TCPPath) Leave(why error) { giveup.Say(p.conn.Conn, why) }

// watch calls heard when the peer sends a message (nil), fails or leaves, until the
// returned function is called.
func (p *TCPPath) watch(heard func(error)) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.conn.listen(func(err error) {
			select {
			case <-over:
			default:
				heard(err)
			}
		})
	}()
	return func() {
		close(over)
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = p.conn.SetReadDeadline(time.Time{})
	}
}

// listen reads until it finds a give-up message or the stream ends. A peer that closes the
// connection after a message has not failed.
func (c *watchedConn) listen(heard func(error)) {
	for n := 1; ; n = c.in.Buffered() + 1 {
		said, err := c.in.Peek(n)
		why := giveup.Find(said)
		switch {
		case why != nil:
			heard(why)
			return
		case err != nil && n > 1:
			return
		case n == 1:
			heard(err)
		}
		if err != nil {
			return
		}
	}
}
