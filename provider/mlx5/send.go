package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends and rings the doorbell once. A short request that is posted alone
// is copied to the device with the doorbell.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if q.state < verbs.QPStateRTS {
		return 0, q.notYet()
	}
	s := &q.sq
	number := s.produced.Load()
	room := int(s.depth - (number - s.completed.Load()))
	n, segs := q.post(number, wrs, room)
	if n < len(wrs) {
		n, segs, err = q.mixed(number, wrs, n, room, segs)
	}
	if n > 0 {
		mmap.StoreRelease(&s.produced, number+uint32(n))
		q.record.set(sendWord, s.pi&indexMask)
		q.register.ring(q, n == 1, segs)
	}
	return n, err
}

// mixed queues requests of all kinds from wrs[n] on. segs is the number of segments of the
// last one.
func (q *qp) mixed(number uint32, wrs []verbs.SendWR, n, room int, segs uint32) (int, uint32, error) {
	for n < len(wrs) {
		used, err := q.send(number+uint32(n), n < room, &wrs[n])
		if err != nil {
			return n, segs, err
		}
		n, segs = n+1, used
		if n < room {
			if more, last := q.post(number+uint32(n), wrs[n:], room-n); more > 0 {
				n, segs = n+more, last
			}
		}
	}
	return n, segs, nil
}

func blocksOf(segs uint32) uint32 { return (segs + blockSegs - 1) / blockSegs }

// send fills blocks beginning at pi, if there is room, and returns the number of segments
// used.
func (q *qp) send(number uint32, room bool, wr *verbs.SendWR) (segs uint32, err error) {
	r := request{wr: wr, op: q.ctx.lookUp(q.typ, wr.Opcode), flags: wr.Flags, sgl: wr.SGL, inline: wr.Inline}
	if err := q.check(&r); err != nil {
		return 0, err
	}
	if !room {
		return 0, verbs.ErrQueueFull
	}
	if r.op.wc == verbs.WCBindMW {
		if err := q.bind(&q.binding.BindMW, false); err != nil {
			return 0, err
		}
	}
	s := &q.sq
	s.note(number, wr.WRID, r.op.wc)
	at := s.pi * blockSegs
	segs = q.fill(at, &r) - at
	*s.segs.At(at) = segment{words((s.pi&indexMask)<<8|uint32(r.op.code), q.num<<8|segs), q.general(&r)}
	s.pi += blocksOf(segs)
	return segs, nil
}

// control returns the flags of a request except for fences.
func (q *qp) control(flags verbs.SendFlags) uint32 {
	return q.signal | uint32(flags&verbs.SendSignaled)*(ctrlCompletion/uint32(verbs.SendSignaled)) |
		uint32(flags&verbs.SendSolicited)/(uint32(verbs.SendSolicited)/ctrlSolicited)
}

// general returns the second half of the first segment: flags, and a number or a key.
func (q *qp) general(r *request) uint64 {
	flags := q.control(r.flags)
	if q.typ == verbs.QPTypeDCI && r.op.form != formKeys {
		flags |= uint32(r.wr.DCStream) << ctrlStreamShift
	}
	switch {
	case r.flags&verbs.SendFence != 0:
		flags |= ctrlFence
	case q.smallFence:
		flags |= ctrlSmallFence
	}
	q.smallFence = r.op.form == formKeys
	return words(flags, q.immediate(r))
}

// immediate returns the last word of the first segment. For a binding it is the window's
// key before the binding.
func (q *qp) immediate(r *request) uint32 {
	switch {
	case r.op.imm:
		return r.wr.Imm
	case r.op.code == opSendInv:
		return r.wr.InvalidateRKey
	case r.op.form == formKeys:
		return q.binding.oldKey
	}
	return 0
}

// plain is an opcode whose requests are short: data, possibly with a remote address.
// Programs post them most often, so they have a fast path.
type plain struct {
	code      uint8
	data      uint8  // segment where data begins; 0: the opcode is not plain
	inline    uint16 // bytes from the start of the request to its inline data
	maxInline uint32
	immMask   uint32 // 0 without immediate data
	wc        verbs.WCOpcode
}

const plainOpcodes = 8

// plainFlags are the flags that a plain request may have.
const plainFlags = verbs.SendSignaled | verbs.SendSolicited

// preparePlain sets what post looks up. An RC or a UC QP has plain opcodes. Requests of other QPs
// begin with more segments: an address, the number of an SRQ, or the header of a raw packet.
func (q *qp) preparePlain() {
	for i := range q.controls {
		q.controls[i] = q.control(verbs.SendFlags(2 * i))
	}
	for op := range q.plain {
		o := q.ctx.lookUp(q.typ, verbs.Opcode(op))
		if q.typ != verbs.QPTypeRC && q.typ != verbs.QPTypeUC || o.form != formSend && o.form != formRemote || o.code == opSendInv {
			continue
		}
		p := plain{code: o.code, data: 1, wc: o.wc}
		if o.form == formRemote {
			p.data++
		}
		if o.code != opRead {
			p.maxInline = q.maxInline
		}
		p.inline = uint16(p.data)*segmentSize + inlineHeader
		if o.imm {
			p.immMask = ^uint32(0)
		}
		q.plain[op] = p
	}
}

// post queues plain requests, at most room, up to the first that is not plain. Plain requests
// have one SGE, or inline data that does not wrap around the end of the queue. It returns their
// number, and the number of segments of the last one.
func (q *qp) post(number uint32, wrs []verbs.SendWR, room int) (n int, segs uint32) {
	s := &q.sq
	if q.smallFence || s.maxSGE == 0 {
		return 0, 0
	}
	wrs = wrs[:min(len(wrs), room)]
	if q.plainFrames {
		return q.postFrames(number, wrs)
	}
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		flags, sgl, inline := wr.Flags, wr.SGL, wr.Inline
		if uint(wr.Opcode) >= plainOpcodes || flags&^plainFlags != 0 {
			break
		}
		op := &q.plain[wr.Opcode]
		if op.data == 0 {
			break
		}
		place := s.pi & (s.blocks - 1)
		b := s.ring.At(place)
		data := &b[op.data&(blockSegs-1)]
		used := uint32(op.data) + 1
		if inline == nil {
			if len(sgl) != 1 {
				break
			}
			e := &sgl[0]
			length, key, addr := e.Length, e.LKey, e.Addr
			if length-1 >= maxDataLength { // also 0, which is no SGE
				break
			}
			*data = segment{words(length, key), be64(addr)}
		} else {
			if uint(len(inline)-1) >= uint(op.maxInline) || len(sgl) > 0 {
				break
			}
			start := int(place)*blockSize + int(op.inline)
			end := start + len(inline)
			if end > len(s.memory) {
				break
			}
			used = uint32(int(op.inline)+len(inline)+segmentSize-1) / segmentSize
			data[0] = words(uint32(len(inline))|inlineBit, 0)
			if to := s.memory[start:end]; len(inline) <= 64 && len(inline) >= 32 {
				// Two pieces that may overlap take fewer instructions than a call of copy.
				copy32(to, inline)
				copy32(to[len(inline)-32:], inline[len(inline)-32:])
			} else {
				copy(to, inline)
			}
		}
		if op.data == 2 {
			b[1] = segment{be64(wr.RemoteAddr), words(wr.RKey, 0)}
		}
		b[0] = segment{words((s.pi&indexMask)<<8|uint32(op.code), q.num<<8|used), words(q.controls[flags/2&3], wr.Imm&op.immMask)}
		s.sent[place] = sent{wr.WRID, number + uint32(n), op.wc}
		s.pi += blocksOf(used)
		segs = used
	}
	return n, segs
}

// copy32 copies 32 bytes.
func copy32(to, from []byte) {
	t, f := (*[32]byte)(to), (*[32]byte)(from)
	*(*[16]byte)(t[:16]) = *(*[16]byte)(f[:16])
	*(*[16]byte)(t[16:]) = *(*[16]byte)(f[16:])
}

// request is a send. Its slices were read once, so that the slice that is checked is used.
type request struct {
	wr     *verbs.SendWR
	op     operation
	flags  verbs.SendFlags
	sgl    []verbs.SGE
	inline []byte
	ah     *ah
	front  []byte // start of a frame, which precedes the rest
	skip   uint32 // bytes of sgl that front has
	vlan   uint16
	mss    uint16
}

const (
	allFlags   = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited
	rawFlags   = allFlags | verbs.SendIPCsum
	atomicSize = 8
)

// check returns an error for a request that would fail the QP, or that the device would
// misread.
func (q *qp) check(r *request) error {
	wr := r.wr
	if r.op.form == formNone {
		return fmt.Errorf("%w: %v QPs of this mlx5 device don't support %v", verbs.ErrNotSupported, q.typ, wr.Opcode)
	}
	known := allFlags
	if q.typ == verbs.QPTypeRawPacket {
		known = rawFlags
	}
	if r.flags&^known != 0 {
		return fmt.Errorf("%w: unknown flags %#x", verbs.ErrInvalidWR, uint32(r.flags&^known))
	}
	if err := q.checkData(r); err != nil {
		return err
	}
	switch {
	case r.op.form == formKeys:
		return q.checkKeys(r)
	case q.typ == verbs.QPTypeUD:
		return r.findAH(q.typ)
	case q.typ == verbs.QPTypeDCI:
		if wr.DCStream != 0 && q.streams == nil {
			return fmt.Errorf("%w: DCStream of a DCI without streams (QPOptions.DCStreams)", verbs.ErrInvalidWR)
		}
		return r.findAH(q.typ)
	case q.typ == verbs.QPTypeRawPacket:
		return q.checkFrame(r)
	}
	return nil
}

func (q *qp) checkData(r *request) error {
	length, err := driver.SumSGL(r.sgl, q.sq.maxSGE)
	op := r.wr.Opcode
	switch form := r.op.form; {
	case err != nil:
		return err
	case length > maxDataLength:
		return errTooLong(length)
	case form == formKeys && (len(r.sgl) > 0 || r.inline != nil):
		return fmt.Errorf("%w: %v takes no data", verbs.ErrInvalidWR, op)
	case form == formAtomic && (len(r.sgl) != 1 || length != atomicSize):
		return fmt.Errorf("%w: the result of %v takes one SGE of %d bytes", verbs.ErrInvalidWR, op, atomicSize)
	case r.inline == nil:
		return nil
	case form == formAtomic || op == verbs.OpRDMARead:
		return fmt.Errorf("%w: %v takes no Inline data", verbs.ErrInvalidWR, op)
	case op == verbs.OpTSO: // Inline has the headers
		return nil
	case len(r.sgl) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case uint64(len(r.inline)) > uint64(q.maxInline):
		return fmt.Errorf("%w: %d bytes inline, but the QP takes at most %d (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)",
			verbs.ErrInvalidWR, len(r.inline), q.maxInline)
	}
	return nil
}

func errTooLong(length uint64) error {
	return fmt.Errorf("%w: %d bytes in all, but a message has at most %d", verbs.ErrInvalidWR, length, uint32(maxDataLength))
}

func (r *request) findAH(t verbs.QPType) error {
	to, open := driver.AHData(r.wr.AH).(*ah)
	if !open {
		return fmt.Errorf("%w: a %v QP needs an open AH", verbs.ErrInvalidWR, t)
	}
	r.ah = to
	return nil
}

// binding is the change of a key that is about to be queued. Without a window, it
// invalidates a key.
type binding struct {
	verbs.BindMW
	oldKey uint32 // the window's key before the binding; or the key to invalidate
	type2  bool
}

// checkKeys checks and copies the binding, which the program might change meanwhile. One
// segment covers at most 2 GiB.
func (q *qp) checkKeys(r *request) error {
	if r.op.wc == verbs.WCLocalInv {
		q.binding = binding{oldKey: r.wr.InvalidateRKey, type2: true}
		return nil
	}
	if r.wr.Bind == nil || r.wr.Bind.MW == nil {
		return fmt.Errorf("%w: no window to bind", verbs.ErrInvalidWR)
	}
	q.binding = binding{BindMW: *r.wr.Bind}
	b := &q.binding
	b.oldKey, b.type2 = b.MW.RKey(), b.MW.Type() == verbs.MWType2
	switch {
	case b.MR == nil && b.Length > 0:
		return fmt.Errorf("%w: a window of %d bytes needs an MR", verbs.ErrInvalidWR, b.Length)
	case b.Length > maxDataLength:
		return fmt.Errorf("%w: a window of %d bytes, but mlx5 binds at most %d", verbs.ErrNotSupported, b.Length, uint32(maxDataLength))
	}
	return nil
}

// fill writes all but the first segment of the request that begins at a segment, and
// returns its end. A segment never wraps around the end of the queue, so each is addressed
// by its free-running index.
func (q *qp) fill(at uint32, r *request) (end uint32) {
	at++
	if r.op.form == formKeys {
		return q.putKeys(at)
	}
	if q.typ == verbs.QPTypeXRCInitiator {
		*q.sq.segs.At(at) = segment{words(r.wr.SRQN, 0)}
		at++
	}
	switch {
	case r.ah != nil:
		at = q.putAddress(at, r)
	case q.typ == verbs.QPTypeRawPacket:
		return q.putFrame(at, r)
	}
	if r.op.form != formSend {
		*q.sq.segs.At(at) = segment{be64(r.wr.RemoteAddr), words(r.wr.RKey, 0)}
		at++
	}
	if r.op.form == formAtomic {
		*q.sq.segs.At(at) = r.operands()
		at++
	}
	if r.inline != nil {
		return q.putInline(at, r.inline)
	}
	return q.putSGL(at, r.sgl)
}

func (r *request) operands() segment {
	if r.op.code == opCompare {
		return segment{be64(r.wr.Swap), be64(r.wr.CompareAdd)}
	}
	return segment{be64(r.wr.CompareAdd)}
}

func (q *qp) putAddress(at uint32, r *request) (end uint32) {
	key := words(r.wr.RemoteQKey, 0)
	if q.typ == verbs.QPTypeDCI {
		key = be64(r.wr.DCKey)
	}
	var av [3]segment
	r.ah.put(&av, key, r.wr.RemoteQPN)
	for i, s := range av {
		*q.sq.segs.At(at + uint32(i)) = s
	}
	return at + uint32(len(av))
}

// putSGL writes SGEs. It leaves out empty ones, because a length of 0 means 2 GiB.
func (q *qp) putSGL(at uint32, sgl []verbs.SGE) (end uint32) {
	for i := range sgl {
		if s := &sgl[i]; s.Length > 0 {
			*q.sq.segs.At(at) = segment{words(s.Length, s.LKey), be64(s.Addr)}
			at++
		}
	}
	return at
}

// putInline writes the length and then the data, which may wrap around the end of the
// queue. Without data it writes no segment.
func (q *qp) putInline(at uint32, data []byte) (end uint32) {
	if len(data) == 0 {
		return at
	}
	end = at + align(uint32(len(data))+inlineHeader, segmentSize)/segmentSize
	first := abi.Bytes(q.sq.segs.At(at))
	*q.sq.segs.At(at) = segment{words(uint32(len(data))|inlineBit, 0)}
	copy(first[inlineHeader:], data)
	if rest := segmentSize - inlineHeader; len(data) > rest {
		data = data[rest:]
		start := int((at+1)*segmentSize) & (len(q.sq.memory) - 1)
		n := copy(q.sq.memory[start:], data)
		copy(q.sq.memory, data[n:])
	}
	return end
}

// operation is the device's number of a send's opcode, and the layout of its request.
type operation struct {
	code  uint8
	form  form
	wc    verbs.WCOpcode
	types uint8 // QP types that take it, one bit each
	imm   bool
}

type form uint8

const (
	formNone   form = iota // there is no such operation
	formSend               // data
	formRemote             // a remote address, then data
	formAtomic             // a remote address, operands, memory for the result
	formKeys               // bindings and invalidations: no data
)

const (
	typeRC = 1 << iota
	typeUC
	typeUD
	typeXRC // sends to SRQs
	typeRaw
	typeDCI

	typesReliable  = typeRC | typeXRC | typeDCI
	typesConnected = typesReliable | typeUC
)

var operations = [...]operation{
	verbs.OpRDMAWrite:    {opWrite, formRemote, verbs.WCRDMAWrite, typesConnected, false},
	verbs.OpRDMAWriteImm: {opWriteImm, formRemote, verbs.WCRDMAWrite, typesConnected, true},
	verbs.OpSend:         {opSend, formSend, verbs.WCSend, typesConnected | typeUD | typeRaw, false},
	verbs.OpSendImm:      {opSendImm, formSend, verbs.WCSend, typesConnected | typeUD, true},
	verbs.OpSendWithInv:  {opSendInv, formSend, verbs.WCSend, typesReliable, false},
	verbs.OpTSO:          {opTSO, formSend, verbs.WCTSO, typeRaw, false},
	verbs.OpRDMARead:     {opRead, formRemote, verbs.WCRDMARead, typesReliable, false},
	verbs.OpCompareSwap:  {opCompare, formAtomic, verbs.WCCompareSwap, typesReliable, false},
	verbs.OpFetchAdd:     {opFetchAdd, formAtomic, verbs.WCFetchAdd, typesReliable, false},
	verbs.OpLocalInv:     {opUMR, formKeys, verbs.WCLocalInv, typesConnected, false},
	verbs.OpBindMW:       {opUMR, formKeys, verbs.WCBindMW, typesConnected, false},
}

func typeBit(t verbs.QPType) uint8 {
	switch t {
	case verbs.QPTypeRC:
		return typeRC
	case verbs.QPTypeUC:
		return typeUC
	case verbs.QPTypeUD:
		return typeUD
	case verbs.QPTypeXRCInitiator:
		return typeXRC
	case verbs.QPTypeRawPacket:
		return typeRaw
	case verbs.QPTypeDCI:
		return typeDCI
	}
	return 0
}

func (c *mlx5Context) lookUp(t verbs.QPType, op verbs.Opcode) operation {
	if int64(op) >= int64(len(operations)) {
		return operation{}
	}
	o := operations[op]
	switch {
	case o.types&typeBit(t) == 0, o.form == formAtomic && !c.atomics,
		o.code == opTSO && (c.tso.SupportedQpts&(1<<t) == 0 || c.tso.MaxTso == 0):
		return operation{}
	}
	return o
}

// Supports implements driver.Supporter.
func (c *mlx5Context) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return c.lookUp(t, op).form != formNone
}

// The fields that a change of a key changes, and its conditions.
const (
	umrInline      = 0x80 // the request holds the list of pieces that the key covers
	umrOffset      = 0x10
	umrCheckFree   = 0x20 // the key must not be in use
	umrCheckQPN    = 0x08 // the key must be this QP's
	umrListShift   = 16   // in the second word: number of 16-byte units that follow
	umrLists       = 4
	maskLength     = 1 << 0
	maskStart      = 1 << 6
	maskKey        = 1 << 13
	maskQPN        = 1 << 14
	maskLocalWrite = 1 << 18
	maskRead       = 1 << 19
	maskWrite      = 1 << 20
	maskAtomic     = 1 << 21
	maskFree       = 1 << 29
	maskBinding    = maskLength | maskStart | maskLocalWrite | maskRead | maskWrite | maskAtomic

	keyFree   = 0x40
	keyAnyQPN = 0xffffff
)

// Sizes of the parts, in segments.
const (
	umrSegs  = 3
	keySegs  = 4
	listSegs = 4 // one, padded
)

// putKeys writes a binding of a window, or the invalidation of a binding or key, which is a
// window or region of 0 bytes.
func (q *qp) putKeys(at uint32) (end uint32) {
	b := &q.binding
	q.putUMR(at, b.Length > 0, b.type2)
	at += umrSegs
	q.putKey(at, b)
	at += keySegs
	if b.Length == 0 {
		return at
	}
	*q.sq.segs.At(at) = segment{words(uint32(b.Length), b.MR.LKey()), be64(b.Addr)}
	q.zero(at+1, listSegs-1)
	return at + listSegs
}

func (q *qp) putUMR(at uint32, binds, type2 bool) {
	flags, mask, lists := uint32(umrInline|umrOffset), uint64(maskFree|maskKey), uint32(0)
	if type2 {
		mask |= maskQPN
	}
	switch {
	case binds:
		mask |= maskBinding
		lists = umrLists
		if type2 {
			flags |= umrCheckFree
		}
	case type2:
		flags |= umrCheckQPN
	}
	*q.sq.segs.At(at) = segment{words(flags<<24, lists<<umrListShift), be64(mask)}
	q.zero(at+1, umrSegs-1)
}

func (q *qp) putKey(at uint32, b *binding) {
	qpn, first, start := uint32(keyAnyQPN), uint32(keyFree)<<24, uint64(0)
	if b.Length > 0 {
		if first = accessBits(b.Access) << 8; b.type2 {
			qpn = q.num
		}
		if b.Access&verbs.AccessZeroBased == 0 {
			start = b.Addr
		}
	}
	*q.sq.segs.At(at) = segment{words(first, qpn<<8|b.RKey&0xff)}
	*q.sq.segs.At(at + 1) = segment{be64(start), be64(b.Length)}
	q.zero(at+2, keySegs-2)
}

// accessBits returns a peer's access rights in the layout of keys. Local reads need no bit.
func accessBits(a verbs.Access) (bits uint32) {
	for _, m := range [...]struct {
		access verbs.Access
		bit    uint32
	}{{verbs.AccessRemoteAtomic, 0x40}, {verbs.AccessRemoteWrite, 0x20}, {verbs.AccessRemoteRead, 0x10}, {verbs.AccessLocalWrite, 0x08}} {
		if a&m.access != 0 {
			bits |= m.bit
		}
	}
	return bits
}

func (q *qp) zero(at, n uint32) {
	for i := range n {
		*q.sq.segs.At(at + i) = segment{}
	}
}
