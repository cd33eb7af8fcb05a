package mlx5

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// dci is an initiator of the dynamically connected transport. Requests that are built begin with the address of
// the target that was named last.
type dci struct {
	qp
	to     dctAddr
	av     [3]segment // of it, as requests have it
	stream uint32     // of it, at its place in a request's flags
}

// dctAddr is the address of a DCT in a work request.
type dctAddr struct {
	ah     verbs.AH
	dctn   uint32
	key    uint64
	stream uint16
}

// streams are those of a DCI that have failed. The lock of the CQ of its sends guards them; a DCI in RESET has no
// completions.
type streams struct {
	most    int // as many failures end the DCI
	errored map[uint16]bool
	ended   bool // as did something else
}

// failed records a request that failed, and returns true. A request that was flushed in a stream that has not failed
// was so because the DCI is in ERR.
func (s *streams) failed(stream uint16, status verbs.Status) bool {
	if s == nil || s.ended {
		return true
	}
	if !s.errored[stream] && status == verbs.StatusWRFlushErr {
		s.ended = true
		return true
	}
	s.errored[stream] = true
	s.ended = len(s.errored) >= s.most
	return true
}

func (s *streams) reset() {
	if s != nil {
		clear(s.errored)
		s.ended = false
	}
}

// Survives implements driver.Survivor. A request that fails ends its stream, and a DCI without streams.
func (q *dci) Survives(*verbs.WC) bool { return q.streams != nil && !q.streams.ended }

// streamsOf returns the device's limits.
func streamsOf(c abi.Mlx5IbDciStreamsCaps) verbs.DCStreams {
	if c.MaxLogNumConcurent == 0 || c.MaxLogNumConcurent > 16 || c.MaxLogNumErrored > 16 {
		return verbs.DCStreams{}
	}
	return verbs.DCStreams{Concurrent: 1 << c.MaxLogNumConcurent, Errored: 1 << c.MaxLogNumErrored}
}

// log2 returns the logarithm of a power of two.
func log2(n uint32) uint8 { return uint8(bits.TrailingZeros32(n)) }

// StartSends implements driver.SendBuilder. There is no target yet, so requests go through add, which refuses
// them.
func (q *dci) StartSends(refused error) {
	q.qp.StartSends(refused)
	q.to, q.built.limit = dctAddr{}, q.built.number
}

// BuildTarget implements driver.SendBuilder.
func (q *dci) BuildTarget(h verbs.AH, dctn uint32, key uint64, stream uint16) {
	b := &q.built
	if b.err != nil {
		return
	}
	q.to, b.limit = dctAddr{h, dctn, key, stream}, b.number
	if stream != 0 && q.streams == nil {
		return // add refuses the requests
	}
	if to, open := driver.AHData(h).(*ah); open {
		to.put(&q.av, be64(key), dctn)
		q.stream = uint32(stream) << ctrlStreamShift
		q.setLimit()
	}
}

// PostSend makes a list as uverbs.Sends does, because short requests are written faster there than in the general way.
func (q *dci) PostSend(wrs []verbs.SendWR) (int, error) {
	q.StartSends(nil)
	for i := 0; i < len(wrs) && q.built.err == nil; i++ {
		wr := &wrs[i]
		sgl, inline := wr.SGL, wr.Inline // read once: the slice that is checked is used
		isData := len(sgl) == 1 && inline == nil
		if wr.Opcode != verbs.OpSend && wr.Opcode != verbs.OpRDMAWrite || !isData && (len(sgl) > 0 || len(inline) == 0) {
			q.addRequest(wr)
			continue
		}
		q.BuildTarget(wr.AH, wr.RemoteQPN, wr.DCKey, wr.DCStream)
		switch {
		case wr.Opcode == verbs.OpSend && isData:
			q.BuildSend(wr.WRID, wr.Flags, sgl[0])
		case wr.Opcode == verbs.OpSend:
			q.BuildSendInline(wr.WRID, wr.Flags, inline)
		case isData:
			q.BuildWrite(wr.WRID, wr.Flags, sgl[0], wr.RemoteAddr, wr.RKey)
		default:
			q.BuildWriteInline(wr.WRID, wr.Flags, inline, wr.RemoteAddr, wr.RKey)
		}
	}
	return q.RingSends()
}

// addTo is add for a request without an address.
func (q *dci) addTo(wr verbs.SendWR) {
	wr.AH, wr.RemoteQPN, wr.DCKey, wr.DCStream = q.to.ah, q.to.dctn, q.to.key, q.to.stream
	q.built.wr = wr
	q.add()
}

// BuildSend implements driver.SendBuilder.
func (q *dci) BuildSend(id uint64, flags verbs.SendFlags, e verbs.SGE) {
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	if flags&^plainFlags != 0 || number == q.built.limit || e.Length-1 >= maxDataLength {
		q.built.sge[0] = e
		q.addTo(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags, SGL: q.built.sge[:]})
		return
	}
	const used = 5
	s.sent[place] = sent{id, number, verbs.WCSend}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opSend, q.num<<8|used), words(q.controls[flags/2&3]|q.stream, 0)}
	b[1], b[2], b[3] = q.av[0], q.av[1], q.av[2]
	s.ring.At(place + 1)[0] = segment{words(e.Length, e.LKey), be64(e.Addr)}
	s.pi += 2
}

// BuildSendInline implements driver.SendBuilder.
func (q *dci) BuildSendInline(id uint64, flags verbs.SendFlags, data []byte) {
	const start = 4*segmentSize + inlineHeader
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	from := int(place)*blockSize + start
	end := from + len(data)
	if flags&^plainFlags != 0 || number == q.built.limit || uint(len(data)-1) >= uint(q.maxInline) || end > len(s.memory) {
		q.addTo(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags, Inline: data})
		return
	}
	used := uint32(start+len(data)+segmentSize-1) / segmentSize
	s.sent[place] = sent{id, number, verbs.WCSend}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opSend, q.num<<8|used), words(q.controls[flags/2&3]|q.stream, 0)}
	b[1], b[2], b[3] = q.av[0], q.av[1], q.av[2]
	s.ring.At(place + 1)[0][0] = words(uint32(len(data))|inlineBit, 0)
	s.pi += blocksOf(used)
	if to := s.memory[from:end]; len(data) <= 64 && len(data) >= 32 { // as in post
		copy32(to, data)
		copy32(to[len(data)-32:], data[len(data)-32:])
	} else {
		copy(to, data)
	}
}

// BuildWrite implements driver.SendBuilder.
func (q *dci) BuildWrite(id uint64, flags verbs.SendFlags, e verbs.SGE, addr uint64, rkey uint32) {
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	if flags&^plainFlags != 0 || number == q.built.limit || e.Length-1 >= maxDataLength {
		q.built.sge[0] = e
		q.addTo(verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, SGL: q.built.sge[:], RemoteAddr: addr, RKey: rkey})
		return
	}
	const used = 6
	s.sent[place] = sent{id, number, verbs.WCRDMAWrite}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opWrite, q.num<<8|used), words(q.controls[flags/2&3]|q.stream, 0)}
	b[1], b[2], b[3] = q.av[0], q.av[1], q.av[2]
	b = s.ring.At(place + 1)
	b[0] = segment{be64(addr), words(rkey, 0)}
	b[1] = segment{words(e.Length, e.LKey), be64(e.Addr)}
	s.pi += 2
}

// BuildWriteInline implements driver.SendBuilder.
func (q *dci) BuildWriteInline(id uint64, flags verbs.SendFlags, data []byte, addr uint64, rkey uint32) {
	const start = 5*segmentSize + inlineHeader
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	from := int(place)*blockSize + start
	end := from + len(data)
	if flags&^plainFlags != 0 || number == q.built.limit || uint(len(data)-1) >= uint(q.maxInline) || end > len(s.memory) {
		q.addTo(verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, Inline: data, RemoteAddr: addr, RKey: rkey})
		return
	}
	used := uint32(start+len(data)+segmentSize-1) / segmentSize
	s.sent[place] = sent{id, number, verbs.WCRDMAWrite}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opWrite, q.num<<8|used), words(q.controls[flags/2&3]|q.stream, 0)}
	b[1], b[2], b[3] = q.av[0], q.av[1], q.av[2]
	b = s.ring.At(place + 1)
	b[0] = segment{be64(addr), words(rkey, 0)}
	b[1][0] = words(uint32(len(data))|inlineBit, 0)
	s.pi += blocksOf(used)
	if to := s.memory[from:end]; len(data) <= 64 && len(data) >= 32 { // as in post
		copy32(to, data)
		copy32(to[len(data)-32:], data[len(data)-32:])
	} else {
		copy(to, data)
	}
}

// dct is a target of the dynamically connected transport. It has no queues and no memory. Its completions
// name found, which has the SRQ and the CQ.
type dct struct {
	driver.NoQueues
	ece
	found *qp
}

func (c *mlx5Context) createDCT(r *driver.CreateQP) (driver.QP, error) {
	q := &qp{ctx: c, typ: r.Type, recvCQ: r.RecvCQ.(*cq), srq: r.SRQ.(*srq), index: noIndex}
	d := &dct{found: q}
	if c.indexed {
		var err error
		if q.index, err = c.qps.Put(q); err != nil {
			return nil, err
		}
	}
	req := abi.Mlx5IbCreateQp{Flags: abi.MLX5_QP_FLAG_TYPE_DCT, Uidx: q.index, SqBufAddr: r.DCKey}
	if c.hasECE() {
		req.EceOptions = askECE
	}
	var resp abi.Mlx5IbCreateQpResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		q.drop()
		return nil, err
	}
	d.ece = ece{offered: c.hasECE(), options: resp.EceOptions}
	r.Cap = verbs.QPCap{}
	return d, nil
}

// Modify implements driver.QPModifier. The kernel returns the DCT's number when the DCT enters RTR.
func (d *dct) Modify(r *driver.ModifyQP) error {
	out, err := d.ask(r)
	if err != nil || r.To != verbs.QPStateRTR {
		return err
	}
	q := d.found
	if out.Dctn == 0 || out.Dctn > cqeNumberMask {
		return fmt.Errorf("the kernel returned invalid DCT number %#x", out.Dctn)
	}
	q.num, r.Num = out.Dctn, out.Dctn
	if q.ctx.indexed {
		return nil
	}
	return q.ctx.qps.Set(q.num, q)
}

// Destroy implements driver.Destroyer.
func (d *dct) Destroy(do func() error) error { return d.found.Destroy(do) }

// Survives implements driver.Survivor. A request that fails ends its initiator, not the DCT.
func (*dct) Survives(*verbs.WC) bool { return true }

// QueryMask implements driver.QueryMasker.
func (*dct) QueryMask() verbs.QPAttrMask {
	return verbs.QPAttrState | verbs.QPAttrAccess | verbs.QPAttrPort | verbs.QPAttrRNRTimer | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrPKeyIndex
}
