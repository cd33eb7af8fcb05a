package mlx5

import "github.com/goverbs/goverbs/verbs"

// plain is an opcode whose requests are short: data, possibly with a remote address.
// Programs post them most often, so they have a fast path.
type plain struct {
	code      uint8
	data      uint8 // segment where data begins; 0: the opcode is not plain
	maxInline uint32
	immMask   uint32 // 0 without immediate data
	wc        verbs.WCOpcode
}

const plainOpcodes = 8

// plains returns the plain opcodes of an RC or a UC QP. Requests of other QPs begin with
// more segments: an address, the number of an SRQ, or the header of a raw packet.
func (c *mlx5Context) plains(t verbs.QPType, maxInline uint32) (all [plainOpcodes]plain) {
	for op := range all {
		o := c.lookUp(t, verbs.Opcode(op))
		if t != verbs.QPTypeRC && t != verbs.QPTypeUC || o.form != formSend && o.form != formRemote || o.code == opSendInv {
			continue
		}
		p := plain{code: o.code, data: 1, wc: o.wc}
		if o.form == formRemote {
			p.data++
		}
		if o.code != opRead {
			p.maxInline = maxInline
		}
		if o.imm {
			p.immMask = ^uint32(0)
		}
		all[op] = p
	}
	return all
}

// post queues plain requests, up to the first that is not plain. Plain requests have one
// SGE, or inline data that does not wrap around the end of the queue. It returns their
// number, and the number of segments of the last one.
func (q *qp) post(number uint32, wrs []verbs.SendWR) (n int, segs uint32) {
	s := &q.sq
	if q.smallFence || s.maxSGE == 0 {
		return 0, 0
	}
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		flags, sgl, inline := wr.Flags, wr.SGL, wr.Inline
		if uint(wr.Opcode) >= plainOpcodes || flags&^(verbs.SendSignaled|verbs.SendSolicited) != 0 {
			break
		}
		op := &q.plain[wr.Opcode]
		if op.data == 0 {
			break
		}
		place := s.pi & (s.blocks - 1)
		b := s.ring.At(place)
		data := &b[op.data&(blockSegs-1)]
		used, blocks := uint32(op.data)+1, uint32(1)
		if inline == nil {
			if len(sgl) != 1 {
				break
			}
			e := sgl[0]
			if e.Length-1 >= maxDataLength { // also 0, which is no SGE
				break
			}
			*data = segment{words(e.Length, e.LKey), be64(e.Addr)}
		} else {
			size := uint32(len(inline))
			used += (size + inlineHeader - 1) / segmentSize
			blocks = blocksOf(used)
			if size-1 >= op.maxInline || place+blocks > s.blocks || len(sgl) > 0 {
				break
			}
			data[0] = words(size|inlineBit, 0)
			copy(s.memory[place*blockSize+uint32(op.data)*segmentSize+inlineHeader:], inline)
		}
		if op.data == 2 {
			b[1] = segment{be64(wr.RemoteAddr), words(wr.RKey, 0)}
		}
		b[0] = segment{words((s.pi&indexMask)<<8|uint32(op.code), q.num<<8|used), words(q.control(flags), wr.Imm&op.immMask)}
		s.sent[place] = sent{wr.WRID, number + uint32(n), op.wc}
		s.pi += blocks
		segs = used
	}
	return n, segs
}
