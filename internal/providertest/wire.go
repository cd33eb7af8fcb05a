package providertest

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Wire carries the messages of one opening's QPs to each other, within the doorbell.
type Wire struct {
	Peers   map[*fakeverbs.QP]*fakeverbs.QP
	Windows map[uint32]fakeverbs.Binding // that are bound, by key

	t testing.TB
	k *fakeverbs.Kernel

	// Found is what the device found in the raw packets that arrived.
	Found []fakeverbs.Packet

	exact  bool // see Options.Exact
	posted [][]verbs.SGE
}

func newWire(t testing.TB, k *fakeverbs.Kernel) *Wire {
	w := &Wire{t: t, k: k, Peers: make(map[*fakeverbs.QP]*fakeverbs.QP), Windows: make(map[uint32]fakeverbs.Binding)}
	k.Rang = w.carry
	return w
}

// isIWARP reports whether a connection manager connects the device's QPs.
func isIWARP(k *fakeverbs.Kernel) bool {
	return k.Driver() == abi.RDMA_DRIVER_SIW || k.Driver() == abi.RDMA_DRIVER_ERDMA && !k.Device.IsRoCE()
}

// Join connects two QPs to each other. Datagrams carry their own addresses.
func (w *Wire) Join(a, b *fakeverbs.QP) {
	w.Peers[a], w.Peers[b] = b, a
	if isIWARP(w.k) {
		a.Connect(0, 0)
		b.Connect(0, 0)
	}
}

// carry carries out all that a QP has sent.
func (w *Wire) carry(from *fakeverbs.QP) {
	for from.State() == abi.IB_QPS_RTS {
		s, ok := from.TakeSend()
		if !ok {
			return
		}
		from.Sent(s, w.deliver(s, from))
	}
}

// qkey is the key in sends that name their peer.
const qkey = 0x11111111

func reliable(qp *fakeverbs.QP) bool {
	return qp.Type != abi.IB_UVERBS_QPT_UC && qp.Type != abi.IB_UVERBS_QPT_UD
}

// deliver carries out a send, and says how it ended.
func (w *Wire) deliver(s *fakeverbs.Work, from *fakeverbs.QP) uint32 {
	switch s.Opcode {
	case fakeverbs.NoOpcode:
		return abi.IB_WC_LOC_QP_OP_ERR
	case abi.IB_UVERBS_WR_LOCAL_INV:
		w.end(s.Imm, from)
		return abi.IB_WC_SUCCESS
	case abi.IB_UVERBS_WR_BIND_MW:
		return w.bind(&s.Bind, from)
	}
	local := uint32(0)
	if r := right(s); r == abi.IB_UVERBS_ACCESS_REMOTE_READ || r == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC {
		local = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	data := slices.Concat(s.Front, s.Inline)
	for _, g := range s.SGL {
		if !w.opens(g.LKey, g.Addr, uint64(g.Length), local) {
			return abi.IB_WC_LOC_PROT_ERR
		}
		data = append(data, w.read(g.Addr, g.Length)...)
	}
	if from.Type == abi.IB_UVERBS_QPT_UD || w.k.Driver() == abi.RDMA_DRIVER_SIW && local == 0 {
		from.Sent(s, abi.IB_WC_SUCCESS) // it is done when it has left
	}
	if from.Type == abi.IB_UVERBS_QPT_UD {
		w.datagram(s, data, from)
		return abi.IB_WC_SUCCESS
	}
	if from.Type == abi.IB_UVERBS_QPT_RAW_PACKET && len(w.k.Flows()) > 0 { // else it goes to the peer
		w.frame(s, data)
		return abi.IB_WC_SUCCESS
	}
	to := w.Peers[from]
	if w.k.Driver() == abi.RDMA_DRIVER_EFA && (s.To.QPN != to.Num || s.To.QKey != qkey) { // each send names its peer
		return abi.IB_WC_REM_INV_RD_REQ_ERR
	}
	if t, ok := to.Made.(interface{ Key() uint64 }); ok && from.Type == abi.IB_UVERBS_QPT_DRIVER && (s.To.QPN != to.Num || s.To.Key != t.Key()) {
		return abi.IB_WC_RETRY_EXC_ERR
	}
	if to.State() < abi.IB_QPS_RTR || to.State() > abi.IB_QPS_SQE {
		return abi.IB_WC_RETRY_EXC_ERR
	}
	if from.Type == abi.IB_UVERBS_QPT_XRC_INI {
		if to = to.Through(s.SRQN); to == nil {
			w.t.Errorf("there is no SRQ %d", s.SRQN)
			return abi.IB_WC_REM_INV_REQ_ERR
		}
	}
	if r := right(s); r != 0 && len(data) > 0 {
		if !w.opens(s.RKey, s.RemoteAddr, uint64(len(data)), r) {
			to.Break()
			return abi.IB_WC_REM_ACCESS_ERR
		}
		w.touch(s, data, from)
	}
	if right(s) == 0 || s.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
		return w.arrive(s, data, from, to)
	}
	return abi.IB_WC_SUCCESS
}

// bind opens a window, and ends its old key.
func (w *Wire) bind(b *fakeverbs.Binding, qp *fakeverbs.QP) uint32 {
	if !qp.Bind(b) {
		return abi.IB_WC_MW_BIND_ERR
	}
	delete(w.Windows, b.RKey)
	if b.Length > 0 {
		w.Windows[b.NewRKey] = *b
	}
	return abi.IB_WC_SUCCESS
}

// end ends a window.
func (w *Wire) end(key uint32, qp *fakeverbs.QP) {
	if _, ok := w.Windows[key]; ok && qp.Invalidate(key) {
		delete(w.Windows, key)
	}
}

// touch writes to the peer's memory, or from it.
func (w *Wire) touch(s *fakeverbs.Work, data []byte, from *fakeverbs.QP) {
	switch right(s) {
	case abi.IB_UVERBS_ACCESS_REMOTE_WRITE:
		w.write(s.RemoteAddr, data)
	case abi.IB_UVERBS_ACCESS_REMOTE_READ:
		w.fetched(s, w.read(s.RemoteAddr, uint32(len(data))), from)
	default:
		old, err := w.k.User.Load64(s.RemoteAddr)
		next := old
		if s.Opcode == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD {
			next += s.Compare
		} else if old == s.Compare {
			next = s.Swap
		}
		if err != nil || w.k.User.Store64(s.RemoteAddr, next) != nil {
			w.t.Errorf("an atomic to %#x", s.RemoteAddr)
		}
		w.fetched(s, abi.Bytes(&old), from)
	}
}

// fetched returns the data that a send brings back.
func (w *Wire) fetched(s *fakeverbs.Work, b []byte, from *fakeverbs.QP) {
	if !from.KeepFetched(s, b) {
		w.scatter(s.SGL, b)
	}
}

// datagram goes to the QP that it names, or nowhere.
func (w *Wire) datagram(s *fakeverbs.Work, data []byte, from *fakeverbs.QP) {
	for _, to := range w.k.QueuePairs() {
		if to.Num == s.To.QPN && to.Type == abi.IB_UVERBS_QPT_UD && s.To.AH != nil {
			r, ok := to.TakeRecv()
			if !ok {
				break
			}
			grh := make([]byte, 40)
			copy(grh[24:], s.To.AH.Attr.Grh.Dgid[:])
			r.Packet.UDP, r.Packet.IPv4 = true, true
			wc := &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, SrcQp: from.Num, Sl: s.To.AH.Attr.Sl, Slid: s.To.AH.Attr.Dlid}
			if s.To.AH.Attr.IsGlobal != 0 {
				wc.WcFlags = abi.IB_WC_GRH
			}
			w.finish(s, append(grh, data...), to, r, wc)
		}
	}
}

// frame goes wherever a rule asks for it. It is one of IPv4 and UDP, whose checksums are right if
// they were filled in.
func (w *Wire) frame(s *fakeverbs.Work, b []byte) {
	const tagAt, tagSize = 12, 4
	f := fakeverbs.ReadFrame(b)
	for _, rule := range w.k.Flows() {
		to := rule.QP
		if to.Table != nil {
			to = to.Deal(f)
		}
		if !rule.Matches(f) || to == nil {
			continue
		}
		r, ok := to.TakeRecv()
		if !ok {
			continue
		}
		found, right := fakeverbs.Packet{IPv4: true, UDP: true}, s.Flags&abi.IB_SEND_IP_CSUM != 0
		found.L3OK, found.L4OK = right, right
		found.Tag, _ = rule.Take(len(b))
		if b[tagAt] == 0x81 && to.Strips() {
			found.Stripped, found.VLAN = true, binary.BigEndian.Uint16(b[tagAt+2:])
			b = slices.Concat(b[:tagAt], b[tagAt+tagSize:])
		}
		r.Packet = found
		w.Found = append(w.Found, found)
		w.finish(s, b, to, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV})
	}
}

// Posted notes a receive that was not posted with Recv, see [Options].Exact.
func (w *Wire) Posted(sgl []verbs.SGE) { w.posted = append(w.posted, sgl) }

// arrive takes a receive. iWARP has no receiver-not-ready.
func (w *Wire) arrive(s *fakeverbs.Work, data []byte, from, to *fakeverbs.QP) uint32 {
	r, ok := to.TakeRecv()
	switch {
	case !ok && isIWARP(w.k):
		to.Break()
		return abi.IB_WC_REM_ACCESS_ERR
	case !ok && reliable(to):
		return abi.IB_WC_RNR_RETRY_EXC_ERR
	case !ok:
		return abi.IB_WC_SUCCESS
	}
	wc := &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV}
	if w.k.Driver() == abi.RDMA_DRIVER_EFA {
		wc.SrcQp = from.Num
	}
	return w.finish(s, data, to, r, wc)
}

func (w *Wire) finish(s *fakeverbs.Work, data []byte, to *fakeverbs.QP, r *fakeverbs.Recv, wc *abi.IbUverbsWc) uint32 {
	wc.ByteLen, r.From = uint32(len(data)), w.k.Device.GIDs()[0]
	if w.exact && !w.wasPosted(r.SGL) {
		w.t.Errorf("the device finds the receive %+v, which was not posted", r.SGL)
	}
	switch s.Opcode {
	case abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		wc.Opcode, wc.WcFlags, wc.Ex = abi.IB_WC_RECV_RDMA_WITH_IMM, wc.WcFlags|abi.IB_WC_WITH_IMM, s.Imm
		data = nil
	case abi.IB_UVERBS_WR_SEND_WITH_IMM:
		wc.WcFlags, wc.Ex = wc.WcFlags|abi.IB_WC_WITH_IMM, s.Imm
	case abi.IB_UVERBS_WR_SEND_WITH_INV:
		wc.WcFlags, wc.Ex = wc.WcFlags|abi.IB_WC_WITH_INVALIDATE, s.Imm
		w.end(s.Imm, to)
	}
	if s.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV && w.k.Driver() == abi.RDMA_DRIVER_SIW && !to.Invalidate(s.Imm) {
		return w.refuse(to, r, abi.IB_WC_REM_INV_REQ_ERR, abi.IB_WC_SUCCESS) // the sender is done
	}
	room := 0
	for _, g := range r.SGL {
		if room += int(g.Length); !w.opens(g.LKey, g.Addr, uint64(g.Length), abi.IB_UVERBS_ACCESS_LOCAL_WRITE) {
			return w.refuse(to, r, abi.IB_WC_LOC_PROT_ERR, abi.IB_WC_REM_OP_ERR)
		}
	}
	if room < len(data) {
		return w.refuse(to, r, abi.IB_WC_LOC_LEN_ERR, abi.IB_WC_REM_INV_REQ_ERR)
	}
	if !to.Keep(r, data) {
		w.scatter(r.SGL, data)
	}
	if w.k.Driver() == abi.RDMA_DRIVER_RXE {
		wc.WcFlags, wc.PortNum = wc.WcFlags|abi.IB_WC_GRH, 1
	}
	to.Received(r, wc, s.Flags&abi.IB_SEND_SOLICITED != 0)
	return abi.IB_WC_SUCCESS
}

// wasPosted takes a receive off the list.
func (w *Wire) wasPosted(sgl []fakeverbs.SGE) bool {
	for i, want := range w.posted {
		if slices.EqualFunc(sgl, want, func(a fakeverbs.SGE, b verbs.SGE) bool {
			return a.Addr == b.Addr && a.Length == b.Length && a.LKey == b.LKey
		}) {
			w.posted = slices.Delete(w.posted, i, i+1)
			return true
		}
	}
	return false
}

// refuse ends the receiver's side.
func (w *Wire) refuse(to *fakeverbs.QP, r *fakeverbs.Recv, here, there uint32) uint32 {
	to.Received(r, &abi.IbUverbsWc{Status: here}, false)
	to.Break()
	return there
}

// right is the access that a send needs at the peer.
func right(s *fakeverbs.Work) uint32 {
	switch s.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV:
		return abi.IB_UVERBS_ACCESS_REMOTE_READ
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
		return abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	}
	return 0
}

func (w *Wire) opens(key uint32, addr, n uint64, right uint32) bool {
	if n == 0 {
		return true
	}
	for _, mr := range w.k.MRs() {
		own := mr.Key
		if right&^abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0 {
			own = mr.RKey
		}
		if own == key && mr.Access&right == right && addr >= mr.Start && n <= mr.Length && addr-mr.Start <= mr.Length-n {
			return true
		}
	}
	b, ok := w.Windows[key]
	return ok && b.Access&right == right && addr >= b.Addr && n <= b.Length && addr-b.Addr <= b.Length-n
}

func (w *Wire) read(addr uint64, n uint32) []byte {
	b := make([]byte, n)
	if err := w.k.User.Read(addr, b); err != nil && n > 0 {
		w.t.Errorf("read %d bytes at %#x: %v", n, addr, err)
	}
	return b
}

func (w *Wire) write(addr uint64, b []byte) {
	if err := w.k.User.Write(addr, b); err != nil && len(b) > 0 {
		w.t.Errorf("write %d bytes at %#x: %v", len(b), addr, err)
	}
}

func (w *Wire) scatter(sgl []fakeverbs.SGE, b []byte) {
	for _, g := range sgl {
		n := min(len(b), int(g.Length))
		w.write(g.Addr, b[:n])
		b = b[n:]
	}
}

// Payload is the data of a message: inline, or SGEs.
type Payload struct {
	inline int // -1: none
	sges   []int
}

// Inline is n bytes of inline data.
func Inline(n int) Payload { return Payload{n, nil} }

// Gathered is data of SGEs of these lengths.
func Gathered(lengths ...int) Payload { return Payload{-1, lengths} }

// String returns the verb.
func (l Payload) String() string {
	if l.inline >= 0 {
		return fmt.Sprintf("%d bytes inline", l.inline)
	}
	return fmt.Sprintf("SGEs of %v bytes", l.sges)
}

// Len is how many bytes there are.
func (l Payload) Len() int {
	n := max(l.inline, 0)
	for _, length := range l.sges {
		n += length
	}
	return n
}

// SGEs is how many SGEs there are.
func (l Payload) SGEs() int { return len(l.sges) }

// IsInline reports whether the data is inline.
func (l Payload) IsInline() bool { return l.inline >= 0 }

// Where a message is taken from in the sender's memory, and where it goes in the receiver's.
const (
	Source = 0
	Target = 0x8000
)

// Fill gives the sender other bytes for each step.
func (p *Pair) Fill(i, step int) {
	for j := range p.Side[i].Mem[:p.Reach] {
		p.Side[i].Mem[j] = byte(j*7 + j/251 + step*13)
	}
	clear(p.Side[1-i].Mem[Target:][:p.Reach])
}

// Message makes the data of a request, and returns the data that the peer must get.
func (p *Pair) Message(i int, wr *verbs.SendWR, l Payload) (data []byte) {
	s := &p.Side[i]
	if l.inline >= 0 {
		wr.Inline = s.Mem[Source : Source+l.inline : Source+l.inline]
		return wr.Inline
	}
	at := Source
	for _, n := range l.sges {
		wr.SGL = append(wr.SGL, s.SGE(at, n))
		data = append(data, s.Mem[at:at+n]...)
		at += n + 64 // pieces apart
	}
	return data
}

// OneMessage sends a message, with flags that change from step to step.
func (p *Pair) OneMessage(i, step int, op verbs.Opcode, l Payload) {
	p.T.Helper()
	p.Fill(i, step)
	to := &p.Side[1-i]
	wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, Imm: 0x01020300 + uint32(step), RemoteAddr: to.MR.Addr() + Target, RKey: to.MR.RKey()}
	if step%3 == 0 {
		wr.Flags |= verbs.SendFence
	}
	if step%4 == 0 {
		wr.Flags |= verbs.SendSolicited
	}
	if p.Type == verbs.QPTypeRawPacket && step%5 == 0 {
		wr.Flags |= verbs.SendIPCsum
	}
	if p.NoFlags {
		wr.Flags &= verbs.SendSignaled
	}
	data := p.Message(i, &wr, l)
	want := verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(len(data))}
	if wr.Flags&verbs.SendIPCsum != 0 { // see Wire.frame
		want.Flags = verbs.WCIPCsumOK
	}
	switch op {
	case verbs.OpSendImm:
		want.Flags, want.Imm = verbs.WCWithImm, wr.Imm
	case verbs.OpSendWithInv:
		wr.InvalidateRKey = to.MR.RKey()
		if p.Ended != nil {
			wr.InvalidateRKey = p.Ended(p, 1-i, step)
		}
		want.Flags, want.Imm = verbs.WCWithInv, wr.InvalidateRKey
	case verbs.OpRDMAWriteImm:
		want.Opcode, want.Flags, want.Imm = verbs.WCRecvRDMAWithImm, verbs.WCWithImm, wr.Imm
	}
	if op != verbs.OpRDMAWrite {
		p.Recv(1-i, Target, Memory-Target, want)
	}
	p.Send(i, wr)
	p.Reap()
	p.Same(fmt.Sprintf("step %d, %v of %v", step, op, l), to.Mem[Target:Target+len(data)], data)
	for _, b := range to.Mem[Target+len(data) : Target+p.Reach] {
		if b != 0 {
			p.T.Fatalf("step %d, %v of %v: more than was sent", step, op, l)
		}
	}
}

// OneRead reads to places of these lengths.
func (p *Pair) OneRead(i, step int, lengths ...int) {
	p.T.Helper()
	p.Fill(1-i, step)
	s, from := &p.Side[i], &p.Side[1-i]
	wr := verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, RemoteAddr: from.MR.Addr() + Source, RKey: from.MR.RKey()}
	n := 0
	for _, length := range lengths {
		wr.SGL = append(wr.SGL, s.SGE(Target+n, length))
		n += length
	}
	p.Send(i, wr)
	p.Reap()
	p.Same("read", s.Mem[Target:Target+n], from.Mem[Source:Source+n])
}

// Atomics adds, and swaps with and without luck.
func (p *Pair) Atomics() {
	p.T.Helper()
	s, to := &p.Side[0], &p.Side[1]
	word, old := to.Mem[64:72], s.Mem[128:136]
	binary.NativeEndian.PutUint64(word, 0x1111222233334444)
	for _, c := range []struct {
		op            verbs.Opcode
		cmp, swp      uint64
		before, after uint64
	}{
		{verbs.OpFetchAdd, 0x0102030405060708, 0, 0x1111222233334444, 0x1213252638394b4c},
		{verbs.OpCompareSwap, 1, 2, 0x1213252638394b4c, 0x1213252638394b4c},
		{verbs.OpCompareSwap, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8},
	} {
		clear(old)
		p.Send(0, verbs.SendWR{Opcode: c.op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{s.SGE(128, 8)},
			RemoteAddr: to.MR.Addr() + 64, RKey: to.MR.RKey(), CompareAdd: c.cmp, Swap: c.swp})
		p.Reap()
		if got := binary.NativeEndian.Uint64(old); got != c.before {
			p.T.Fatalf("%v returns %#x, want %#x", c.op, got, c.before)
		}
		if got := binary.NativeEndian.Uint64(word); got != c.after {
			p.T.Fatalf("%v leaves %#x, want %#x", c.op, got, c.after)
		}
	}
}

// WriteTo has side 0 write 100 bytes to side 1 under a key.
func (p *Pair) WriteTo(step, at int, key uint32) {
	p.T.Helper()
	p.Fill(0, step)
	s, to := &p.Side[0], &p.Side[1]
	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{s.SGE(0, 100)}, RemoteAddr: to.MR.Addr() + uint64(at), RKey: key})
	p.Reap()
	p.Same("window", to.Mem[at:at+100], s.Mem[:100])
}

// probe is the test that a changed tour runs in.
type probe struct {
	testing.TB
	failed  bool
	cleanup []func()
}

func (*probe) Helper()                 {}
func (p *probe) Cleanup(f func())      { p.cleanup = append(p.cleanup, f) }
func (p *probe) Error(...any)          { p.failed = true }
func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Fatal(...any)          { p.failed = true; runtime.Goexit() }
func (p *probe) Fatalf(string, ...any) { p.failed = true; runtime.Goexit() }

// run runs f and all that it left to be done, on a goroutine that f may end.
func (p *probe) run(f func()) (panicked string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		defer func() {
			for i := range p.cleanup {
				p.cleanup[len(p.cleanup)-1-i]()
			}
		}()
		f()
	}()
	<-done
	return panicked
}
