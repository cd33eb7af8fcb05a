//go:build vm

package test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// The rxe fabric is one rxe link on a dummy interface with an IPv4 and an IPv6
// address. Both ends of a pair are QPs of this link. The first test that needs the
// fabric creates it, and it stays.
const (
	rxeLink = "gvrxe0"
	rxeIPv4 = "10.83.0.1"
	rxeIPv6 = "fd83::1"
)

func rxeFabric(t *testing.T) {
	t.Helper()
	if hasDevice(rxeLink) {
		return
	}
	sh(t, `set -e
		ip -batch - <<-END
			link add gvroce type dummy
			addr add 10.83.0.1/24 dev gvroce
			addr add fd83::1/64 dev gvroce nodad
			link set gvroce up
		END
		../../bin/rdmalink add gvrxe0 type rxe netdev gvroce`)
}

// noRxeFabric removes the fabric, for a test that counts links or unloads modules.
func noRxeFabric(t *testing.T) {
	t.Helper()
	if hasDevice(rxeLink) {
		sh(t, "../../bin/rdmalink del gvrxe0 && ip link del gvroce")
	}
}

// rxeDevice is the open device, with a PD and the GID to send from. It is
// closed when the test ends.
type rxeDevice struct {
	*uverbs.Device
	t    *testing.T
	pd   *uverbs.PD
	attr *verbs.DeviceAttr
	gid  verbs.GIDEntry // of its IPv4 address
}

func openRxe(t *testing.T) *rxeDevice {
	t.Helper()
	rxeFabric(t)
	return openRxeLink(t, rxeLink, rxeIPv4)
}

func openRxeLink(t *testing.T, name, addr string) *rxeDevice {
	t.Helper()
	d := &rxeDevice{Device: must(uverbs.Open(name))(t), t: t}
	closeLater(t, d.Device)
	d.pd = must(d.AllocPD())(t)
	closeLater(t, d.pd)
	d.attr = must(d.Query())(t)
	until(t, "with the GID of "+addr, func() bool { // which the kernel makes in the background
		gid, err := d.ChooseGID(1, &uverbs.GIDChoice{Addr: netip.MustParseAddr(addr)})
		if err == nil {
			d.gid = *gid
		}
		return err == nil
	})
	return d
}

// gidOf finds the GID that an address of the link has.
func (d *rxeDevice) gidOf(addr string) (gid verbs.GIDEntry) {
	d.t.Helper()
	want := addr
	if addr == rxeIPv4 {
		want = "::ffff:" + addr
	}
	until(d.t, "with the GID of "+addr, func() bool {
		table := must(d.GIDTable())(d.t)
		i := slices.IndexFunc(table, func(e verbs.GIDEntry) bool { return e.GID.String() == want })
		if i >= 0 {
			gid = table[i]
		}
		return i >= 0
	})
	return gid
}

// access is everything that the device lets a peer do.
func (d *rxeDevice) access() verbs.Access {
	a := allAccess | verbs.AccessRemoteAtomic | verbs.AccessMWBind
	if d.has(verbs.DeviceCapFlushGlobal) {
		a |= verbs.AccessFlushGlobal // a persistent one wants persistent memory
	}
	return a
}

func (d *rxeDevice) has(c verbs.DeviceCap) bool { return d.attr.CapFlags&c == c }

// rxeSetup describes one end. The zero value will do.
type rxeSetup struct {
	cap    verbs.QPCap  // zero fields: 16 work requests, 1 SGE
	access verbs.Access // to its memory; zero: all there is
	size   int          // of its memory; zero: memorySize
	cqe    int          // entries of its CQs; zero: 128
	srq    *uverbs.SRQ
	all    bool          // signal all sends
	peer   *verbs.Access // what the peer may do; nil: everything
}

// rxeEnd is a QP with CQs, memory and, when it is connected, a peer.
type rxeEnd struct {
	t              *testing.T
	dev            *rxeDevice
	qp             *uverbs.QP
	sendCQ, recvCQ *uverbs.CQ
	recvChannel    *uverbs.CompChannel
	mr             *uverbs.MR
	access         verbs.Access // of the peer
	peer           *rxeEnd
	ah             *verbs.AH // UD: the way to the peer
}

const rxeQKey = 0x1234

// end makes an end in RESET.
func (d *rxeDevice) end(t *testing.T, typ verbs.QPType, s rxeSetup) *rxeEnd {
	t.Helper()
	e := &rxeEnd{t: t, dev: d, access: d.access() &^ verbs.AccessMWBind}
	if s.peer != nil {
		e.access = *s.peer
	}
	if s.cqe == 0 {
		s.cqe = 128
	}
	e.sendCQ, _ = d.cq(t, s.cqe)
	e.recvCQ, e.recvChannel = d.cq(t, s.cqe)
	if s.access == 0 {
		s.access = d.access()
	}
	e.mr = must(d.pd.AllocMR(max(s.size, memorySize), s.access, nil))(t)
	closeLater(t, e.mr)
	for _, n := range []*uint32{&s.cap.MaxSendWR, &s.cap.MaxRecvWR} {
		if *n == 0 {
			*n = 16
		}
	}
	s.cap.MaxSendSGE, s.cap.MaxRecvSGE = max(s.cap.MaxSendSGE, 1), max(s.cap.MaxRecvSGE, 1)
	e.qp = must(d.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SRQ: s.srq, Cap: s.cap, SignalAll: s.all}))(t)
	closeLater(t, e.qp)
	return e
}

// cq makes a CQ with a CompChannel of its own.
func (d *rxeDevice) cq(t *testing.T, entries int) (*uverbs.CQ, *uverbs.CompChannel) {
	t.Helper()
	channel := must(d.CreateCompChannel())(t)
	closeLater(t, channel)
	cq := must(d.CreateCQ(entries, &uverbs.CQOptions{Channel: channel}))(t)
	closeLater(t, cq)
	return cq, channel
}

// pair makes two ends that are connected to each other, by hand.
func (d *rxeDevice) pair(t *testing.T, typ verbs.QPType, s rxeSetup) (*rxeEnd, *rxeEnd) {
	t.Helper()
	a, b := d.end(t, typ, s), d.end(t, typ, s)
	a.connect(b)
	b.connect(a)
	return a, b
}

// connect takes an end from RESET to RTS.
func (e *rxeEnd) connect(peer *rxeEnd) {
	e.t.Helper()
	e.toInit()
	e.toRTR(peer)
	e.toRTS()
}

func (e *rxeEnd) modify(attr verbs.QPAttr, mask verbs.QPAttrMask) {
	e.t.Helper()
	if err := e.qp.Modify(&attr, mask|verbs.QPAttrState); err != nil {
		e.t.Fatal(err)
	}
}

func (e *rxeEnd) toInit() {
	e.t.Helper()
	attr := verbs.QPAttr{State: verbs.QPStateInit, Port: 1, QKey: rxeQKey, Access: e.access}
	mask := verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	if e.qp.Type() == verbs.QPTypeUD {
		mask = verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey
	}
	e.modify(attr, mask)
}

// address is the way to a peer, which may be on another device.
func (e *rxeEnd) address(peer *rxeEnd) verbs.AHAttr {
	return verbs.AHAttr{Global: true, DGID: peer.dev.gid.GID, SGIDIndex: e.dev.gid.Index, HopLimit: 64, Port: 1}
}

func (e *rxeEnd) toRTR(peer *rxeEnd) {
	e.t.Helper()
	e.peer = peer
	attr := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: peer.qp.Num(), RQPSN: 0x123456,
		AH: e.address(peer), MaxDestRDAtomic: 4, MinRNRTimer: 12}
	mask := verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	switch e.qp.Type() {
	case verbs.QPTypeRC:
		mask |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer
	case verbs.QPTypeUD:
		mask = 0
		to := e.address(peer)
		e.ah = must(e.dev.pd.CreateAH(&to))(e.t)
		closeLater(e.t, e.ah)
	}
	e.modify(attr, mask)
}

// toRTS has RC wait 4 seconds for an acknowledgement; see patientRxe.
func (e *rxeEnd) toRTS() {
	e.t.Helper()
	attr := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, Timeout: 20, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 4}
	mask := verbs.QPAttrSQPSN
	if e.qp.Type() == verbs.QPTypeRC {
		mask |= verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	e.modify(attr, mask)
}

// to makes wr go to the peer: to its QP, or to the start of its memory.
func (e *rxeEnd) to(wr verbs.SendWR) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = e.peer.mr.Addr(), e.peer.mr.RKey()
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.ah, e.peer.qp.Num(), rxeQKey
	return wr
}

// send is a signaled send of some memory.
func (e *rxeEnd) send(id uint64, offset, length int) verbs.SendWR {
	return e.to(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(offset, length)}})
}

// post queues sends, all of which have to be taken.
func (e *rxeEnd) post(wrs ...verbs.SendWR) {
	e.t.Helper()
	if n, err := e.qp.PostSend(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("posted %d of %d sends: %v", n, len(wrs), err)
	}
}

// postRecv queues a receive into some memory.
func (e *rxeEnd) postRecv(id uint64, offset, length int) {
	e.t.Helper()
	if _, err := e.qp.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{e.mr.SGE(offset, length)}}}); err != nil {
		e.t.Fatal(err)
	}
}

// next waits for one completion.
func (e *rxeEnd) next(cq *uverbs.CQ) verbs.WC {
	e.t.Helper()
	return next(e.t, cq)
}

// sent waits for a send to complete as described: "7 SEND success".
func (e *rxeEnd) sent(want string) {
	e.t.Helper()
	if got := brief(e.next(e.sendCQ)); got != want {
		e.t.Errorf("send completion %q, want %q", got, want)
	}
}

// got waits for a receive to complete as described: "1000 RECV success 5".
func (e *rxeEnd) got(want string) verbs.WC {
	e.t.Helper()
	wc := e.next(e.recvCQ)
	if got := brief(wc); got != want {
		e.t.Errorf("receive completion %q, want %q", got, want)
	}
	return wc
}

// forAllTypes runs a test once a service.
func forAllTypes(t *testing.T, test func(*testing.T, verbs.QPType)) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) { test(t, typ) })
	}
}
