//go:build vm

package kit

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Ah creates an address handle that is closed when the test ends.
func (d *RxeDevice) Ah(t *testing.T, attr verbs.AHAttr) *uverbs.AH {
	t.Helper()
	ah := Must(d.PD.CreateAH(&attr))(t)
	CloseLater(t, ah)
	return ah
}

// The rxe fabric is one rxe link on a dummy interface with an IPv4 and an IPv6
// address. Both ends of a pair are QPs of this link. The first test that needs the
// fabric creates it, and it stays.
const (
	RxeLink = "gvrxe0"
	RxeIPv4 = "10.83.0.1"
	RxeIPv6 = "fd83::1"
)

// RxeFabric creates the rxe fabric if it does not exist.
func RxeFabric(t *testing.T) {
	t.Helper()
	if hasDevice(RxeLink) {
		return
	}
	Sh(t, `set -e
		ip -batch - <<-END
			link add gvroce type dummy
			addr add 10.83.0.1/24 dev gvroce
			addr add fd83::1/64 dev gvroce nodad
			link set gvroce up
		END
		../../bin/rdmalink add gvrxe0 type rxe netdev gvroce`)
}

// NoRxeFabric removes the fabric, for a test that counts links or unloads modules.
func NoRxeFabric(t *testing.T) {
	t.Helper()
	if hasDevice(RxeLink) {
		Sh(t, "../../bin/rdmalink del gvrxe0 && ip link del gvroce")
	}
}

// RxeDevice is an open device with a PD and the GID to send from. It is
// closed when the test ends.
type RxeDevice struct {
	*uverbs.Device
	T    *testing.T
	PD   *uverbs.PD
	Attr *verbs.DeviceAttr
	GID  verbs.GIDEntry // of its IPv4 address
}

// OpenRxe opens the link of the rxe fabric.
func OpenRxe(t *testing.T) *RxeDevice {
	t.Helper()
	RxeFabric(t)
	return OpenRxeLink(t, RxeLink, RxeIPv4)
}

// OpenRxeLink opens an rxe link that has an address.
func OpenRxeLink(t *testing.T, name, addr string) *RxeDevice {
	t.Helper()
	d := &RxeDevice{Device: Must(uverbs.Open(name))(t), T: t}
	CloseLater(t, d.Device)
	d.PD = Must(d.AllocPD())(t)
	CloseLater(t, d.PD)
	d.Attr = Must(d.QueryDevice())(t)
	Until(t, "with the GID of "+addr, func() bool { // which the kernel makes in the background
		gid, err := d.ChooseGID(1, &uverbs.GIDChoice{Addr: netip.MustParseAddr(addr)})
		if err == nil {
			d.GID = *gid
		}
		return err == nil
	})
	return d
}

// GIDOf returns the GID of an address of the link.
func (d *RxeDevice) GIDOf(addr string) (gid verbs.GIDEntry) {
	d.T.Helper()
	want := addr
	if addr == RxeIPv4 {
		want = "::ffff:" + addr
	}
	Until(d.T, "with the GID of "+addr, func() bool {
		table := Must(d.GIDTable())(d.T)
		i := slices.IndexFunc(table, func(e verbs.GIDEntry) bool { return e.GID.String() == want })
		if i >= 0 {
			gid = table[i]
		}
		return i >= 0
	})
	return gid
}

// Access returns all access rights that the device can grant to a peer.
func (d *RxeDevice) Access() verbs.Access {
	a := AllAccess | verbs.AccessRemoteAtomic | verbs.AccessMWBind
	if d.Has(verbs.DeviceCapFlushGlobal) {
		a |= verbs.AccessFlushGlobal // a persistent one wants persistent memory
	}
	return a
}

// Has reports whether the device has a capability.
func (d *RxeDevice) Has(c verbs.DeviceCap) bool { return d.Attr.CapFlags&c == c }

// RxeSetup describes one end. The zero value will do.
type RxeSetup struct {
	Cap    verbs.QPCap  // zero fields: 16 work requests, 1 SGE
	Access verbs.Access // to its memory; zero: all there is
	Size   int          // of its memory; zero: MemorySize
	CQE    int          // entries of its CQs; zero: 128
	SRQ    *uverbs.SRQ
	all    bool                // signal all sends
	AtPeer *verbs.Access       // what the peer may do; nil: everything
	Change func(*verbs.QPAttr) // changes the attributes with which it is connected, or is nil
}

// RxeEnd is a QP with CQs, memory and, when it is connected, a peer.
type RxeEnd struct {
	T              *testing.T
	Dev            *RxeDevice
	QP             *uverbs.QP
	SendCQ, RecvCQ *uverbs.CQ
	MR             *uverbs.MR
	Access         verbs.Access // of the peer
	AtPeer         *RxeEnd
	Change         func(*verbs.QPAttr) // as in RxeSetup
	Ah             *uverbs.AH          // UD: the way to the peer
}

const RxeQKey = 0x1234

// End creates an end whose QP is in RESET.
func (d *RxeDevice) End(t *testing.T, typ verbs.QPType, s RxeSetup) *RxeEnd {
	t.Helper()
	e := &RxeEnd{T: t, Dev: d, Access: d.Access() &^ verbs.AccessMWBind, Change: s.Change}
	if s.AtPeer != nil {
		e.Access = *s.AtPeer
	}
	if s.CQE == 0 {
		s.CQE = 128
	}
	if s.Access == 0 {
		s.Access = d.Access()
	}
	e.MR = Must(d.PD.AllocMR(max(s.Size, MemorySize), s.Access, nil))(t)
	CloseLater(t, e.MR)
	for _, n := range []*uint32{&s.Cap.MaxSendWR, &s.Cap.MaxRecvWR} {
		if *n == 0 {
			*n = 16
		}
	}
	s.Cap.MaxSendSGE, s.Cap.MaxRecvSGE = max(s.Cap.MaxSendSGE, 1), max(s.Cap.MaxRecvSGE, 1)
	own := Must(d.CreateEndpoint(&uverbs.EndpointOptions{PD: d.PD, SendCQEntries: s.CQE, RecvCQEntries: s.CQE}))(t)
	CloseLater(t, own)
	e.SendCQ, e.RecvCQ = own.SendCQ, own.RecvCQ
	e.QP = Must(own.CreateQP(&uverbs.QPOptions{Type: typ, SRQ: s.SRQ, Cap: s.Cap, SignalAll: s.all}))(t)
	return e
}

// Pair creates two ends and connects them by hand.
func (d *RxeDevice) Pair(t *testing.T, typ verbs.QPType, s RxeSetup) (*RxeEnd, *RxeEnd) {
	t.Helper()
	a, b := d.End(t, typ, s), d.End(t, typ, s)
	a.Connect(b)
	b.Connect(a)
	return a, b
}

// Connect moves an end from RESET to RTS.
func (e *RxeEnd) Connect(peer *RxeEnd) {
	e.T.Helper()
	e.ToInit()
	e.ToRTR(peer)
	e.ToRTS()
}

// Modify changes attributes of the QP and has to succeed.
func (e *RxeEnd) Modify(attr verbs.QPAttr, mask verbs.QPAttrMask) {
	e.T.Helper()
	if err := e.QP.Modify(&attr, mask|verbs.QPAttrState); err != nil {
		e.T.Fatal(err)
	}
}

// ToInit moves the QP to INIT.
func (e *RxeEnd) ToInit() {
	e.T.Helper()
	OK(e.T, e.QP.Init(&verbs.QPAttr{QKey: RxeQKey, Access: e.Access}))
}

// Address returns the address of a peer, which may be on another device.
func (e *RxeEnd) Address(peer *RxeEnd) verbs.AHAttr {
	return verbs.AHAttr{Global: true, DGID: peer.Dev.GID.GID, SGIDIndex: e.Dev.GID.Index, HopLimit: 64, Port: 1}
}

func (e *RxeEnd) change(attr *verbs.QPAttr) {
	if e.Change != nil {
		e.Change(attr)
	}
}

// ToRTR moves the QP to RTR, connected to a peer.
func (e *RxeEnd) ToRTR(peer *RxeEnd) {
	e.T.Helper()
	e.AtPeer = peer
	attr := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: peer.QP.QPN(), RQPSN: 0x123456,
		AH: e.Address(peer), MaxDestRDAtomic: 4, RNRTimer: 640 * time.Microsecond}
	e.change(&attr)
	mask := verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	switch e.QP.Type() {
	case verbs.QPTypeRC:
		mask |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer
	case verbs.QPTypeUD:
		mask = 0
		to := e.Address(peer)
		e.Ah = Must(e.Dev.PD.CreateAH(&to))(e.T)
		CloseLater(e.T, e.Ah)
	}
	e.Modify(attr, mask)
}

// ToRTS moves the QP to RTS. RC then waits 4 seconds for an acknowledgement.
func (e *RxeEnd) ToRTS() {
	e.T.Helper()
	attr := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, AckTimeout: 4096 << 20, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 4}
	e.change(&attr)
	mask := verbs.QPAttrSQPSN
	if e.QP.Type() == verbs.QPTypeRC {
		mask |= verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	e.Modify(attr, mask)
}

// To addresses wr to the peer: to its QP, or to the start of its memory.
func (e *RxeEnd) To(wr verbs.SendWR) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = e.AtPeer.MR.Addr(), e.AtPeer.MR.RKey()
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.Ah, e.AtPeer.QP.QPN(), RxeQKey
	return wr
}

// Send returns a signaled send of some memory.
func (e *RxeEnd) Send(id uint64, offset, length int) verbs.SendWR {
	return e.To(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.MR.SGE(offset, length)}})
}

// Post posts sends and fails the test if any is refused.
func (e *RxeEnd) Post(wrs ...verbs.SendWR) {
	e.T.Helper()
	if n, err := e.QP.PostSend(wrs); n != len(wrs) || err != nil {
		e.T.Fatalf("posted %d of %d sends: %v", n, len(wrs), err)
	}
}

// PostRecv posts a receive into some memory.
func (e *RxeEnd) PostRecv(id uint64, offset, length int) {
	e.T.Helper()
	if _, err := e.QP.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{e.MR.SGE(offset, length)}}}); err != nil {
		e.T.Fatal(err)
	}
}

// Next waits for one completion.
func (e *RxeEnd) Next(cq *uverbs.CQ) verbs.WC {
	e.T.Helper()
	return next(e.T, cq)
}

// Sent waits for a send to complete as described: "7 SEND success".
func (e *RxeEnd) Sent(want string) {
	e.T.Helper()
	if got := Brief(e.Next(e.SendCQ)); got != want {
		e.T.Errorf("send completion %q, want %q", got, want)
	}
}

// Got waits for a receive to complete as described: "1000 RECV success 5".
func (e *RxeEnd) Got(want string) verbs.WC {
	e.T.Helper()
	wc := e.Next(e.RecvCQ)
	if got := Brief(wc); got != want {
		e.T.Errorf("receive completion %q, want %q", got, want)
	}
	return wc
}

// ForAllTypes runs a test for each type of QP.
func ForAllTypes(t *testing.T, test func(*testing.T, verbs.QPType)) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) { test(t, typ) })
	}
}
