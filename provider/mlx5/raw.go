package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// A raw packet QP sends and receives whole Ethernet frames.

const (
	ethernetHeader = 18 // of a frame with a VLAN's tag
	ethernetStart  = 2  // bytes of it in the segment before the frame's
	untaggedHeader = 14
	tagAt          = 12 // behind both addresses
	tagSize        = 4
	etherVLAN      = 0x8100

	fillChecksums = 0xc0 << 24 // of layers 3 and 4
	layersRight   = 0x06       // of the same
	headerIPv4    = 2
	hasVLAN       = 1
)

// frameHeader returns the number of bytes of each frame that must be in the request. Older
// devices need them; if the kernel does not report it, the device is taken for an old one.
func (c *mlx5Context) frameHeader() int {
	if c.limits.EthMinInline == abi.MLX5_USER_INLINE_MODE_NONE {
		return 0
	}
	return ethernetHeader
}

// postFrames is post of a raw packet QP whose device wants no start of a frame in the request. It
// stops at a VLAN tag, a TSO and a frame in several pieces, too.
func (q *qp) postFrames(number uint32, wrs []verbs.SendWR) (n int, segs uint32) {
	s := &q.sq
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		flags, sgl, inline := wr.Flags, wr.SGL, wr.Inline
		if wr.Opcode != verbs.OpSend || wr.VLAN != 0 || flags&^q.frameFlags != 0 {
			break
		}
		place := s.pi & (s.blocks - 1)
		b := s.ring.At(place)
		used, blocks := uint32(3), uint32(1)
		if inline == nil {
			if len(sgl) != 1 {
				break
			}
			e := sgl[0]
			if e.Length-1 >= maxDataLength { // also 0, which is no SGE
				break
			}
			b[2] = segment{words(e.Length, e.LKey), be64(e.Addr)}
		} else {
			if uint(len(inline)-1) >= uint(q.maxInline) {
				break
			}
			size := uint32(len(inline))
			used += (size + inlineHeader - 1) / segmentSize
			blocks = blocksOf(used)
			if place+blocks > s.blocks || len(sgl) > 0 {
				break
			}
			b[2][0] = words(size|inlineBit, 0)
			copy(s.memory[place*blockSize+2*segmentSize+inlineHeader:], inline)
		}
		b[1] = segment{words(0, uint32(flags&verbs.SendIPCsum)*(fillChecksums/uint32(verbs.SendIPCsum)))}
		b[0] = segment{words((s.pi&indexMask)<<8|opSend, q.num<<8|used), words(q.control(flags), 0)}
		s.sent[place] = sent{wr.WRID, number + uint32(n), verbs.WCSend}
		s.pi += blocks
		segs = used
	}
	return n, segs
}

// checkFrame checks a frame, and prepares its start that is in the request: what the device
// wants there, the part before a VLAN tag with the tag, or the headers of a TSO.
func (q *qp) checkFrame(r *request) error {
	if r.flags&verbs.SendIPCsum != 0 && !q.ctx.checksums {
		return fmt.Errorf("%w: this mlx5 device does not fill in checksums", verbs.ErrNotSupported)
	}
	r.vlan, r.mss = r.wr.VLAN, 0
	if r.op.code == opTSO {
		return q.checkTSO(r)
	}
	n := q.ctx.frameHeader()
	if r.vlan != 0 {
		n = untaggedHeader
	}
	if n == 0 {
		return nil
	}
	r.front, r.skip = q.front[:n], uint32(n)
	if r.inline != nil {
		if len(r.inline) < n {
			return errShortFrame(len(r.inline), n)
		}
		copy(r.front, r.inline)
		r.inline, r.skip = r.inline[n:], 0
	} else if err := q.readFront(r); err != nil {
		return err
	}
	if r.vlan != 0 {
		r.front = insertTag(q.front, r.front, r.vlan)
	}
	return nil
}

// checkTSO checks the headers and the length of a TSO.
func (q *qp) checkTSO(r *request) error {
	least, most, n := max(untaggedHeader, q.ctx.frameHeader()), q.maxTSOHeader, len(r.inline)
	if r.vlan != 0 {
		least, n = untaggedHeader, n+tagSize
	}
	switch length, _ := driver.SumSGL(r.sgl, q.sq.maxSGE); {
	case most == 0:
		return fmt.Errorf("%w: the QP was created without MaxTSOHeader", verbs.ErrNotSupported)
	case len(r.inline) < least || n > most:
		return fmt.Errorf("%w: %d bytes of headers with the tag, but the QP takes %d to %d (QPOptions.MaxTSOHeader asks for more)", verbs.ErrInvalidWR, n, least, most)
	case r.wr.MSS == 0:
		return fmt.Errorf("%w: the MSS is 0", verbs.ErrInvalidWR)
	case length == 0 || length > uint64(q.ctx.tso.MaxTso):
		return fmt.Errorf("%w: %d bytes of payload, but the device takes 1 to %d (DeviceAttr.TSO)", verbs.ErrInvalidWR, length, q.ctx.tso.MaxTso)
	}
	r.mss, r.front, r.inline = r.wr.MSS, r.inline, nil
	if r.vlan != 0 {
		r.front = insertTag(q.front, r.front, r.vlan)
	}
	return nil
}

// readFront copies the start of a frame from the memory that the SGL names.
func (q *qp) readFront(r *request) error {
	rest := r.front
	for _, s := range r.sgl {
		part := rest[:min(len(rest), int(s.Length))]
		if !q.ctx.device.Read(s.LKey, s.Addr, part) {
			return fmt.Errorf("%w: the first %d bytes of a frame must be copied into the work request (on this mlx5 device, or for a VLAN tag), and no region with key %#x contains them",
				verbs.ErrInvalidWR, len(r.front), s.LKey)
		}
		if rest = rest[len(part):]; len(rest) == 0 {
			return nil
		}
	}
	return errShortFrame(len(r.front)-len(rest), len(r.front))
}

func errShortFrame(length, least int) error {
	return fmt.Errorf("%w: a frame of %d bytes, but this mlx5 device needs at least %d", verbs.ErrInvalidWR, length, least)
}

// insertTag returns headers with a VLAN tag, in memory that may overlap them. Devices insert
// tags only if the firmware says so, which the kernel's uverbs interface does not report.
func insertTag(to, headers []byte, vlan uint16) []byte {
	to = to[:len(headers)+tagSize]
	copy(to[tagAt+tagSize:], headers[tagAt:])
	copy(to[:tagAt], headers)
	binary.BigEndian.PutUint16(to[tagAt:], etherVLAN)
	binary.BigEndian.PutUint16(to[tagAt+2:], vlan)
	return to
}

// putFrame writes the segment before a frame, and the frame.
func (q *qp) putFrame(at uint32, r *request) (end uint32) {
	var checksums, start uint32
	if r.flags&verbs.SendIPCsum != 0 {
		checksums = fillChecksums
	}
	if len(r.front) > 0 {
		start = uint32(len(r.front))<<16 | uint32(r.front[0])<<8 | uint32(r.front[1])
	}
	*q.sq.segs.At(at) = segment{words(0, checksums|uint32(r.mss)), words(0, start)}
	at++
	if len(r.front) > ethernetStart {
		at = q.putBytes(at, r.front[ethernetStart:])
	}
	if r.inline != nil {
		return q.putInline(at, r.inline)
	}
	skip := r.skip
	for i := range r.sgl {
		s := r.sgl[i]
		n := min(skip, s.Length)
		skip -= n
		at = q.putSGL(at, []verbs.SGE{{Addr: s.Addr + uint64(n), Length: s.Length - n, LKey: s.LKey}})
	}
	return at
}

// putBytes writes bytes from a segment on, which may wrap around the end of the queue, and
// zeros up to the next segment.
func (q *qp) putBytes(at uint32, b []byte) (end uint32) {
	end = at + align(uint32(len(b)), segmentSize)/segmentSize
	*q.sq.segs.At(end - 1) = segment{}
	n := copy(q.sq.memory[int(at*segmentSize)&(len(q.sq.memory)-1):], b)
	copy(q.sq.memory, b[n:])
	return end
}

// describeFrame sets the flag of a frame whose checksums the device found right. It returns
// true, as complete does.
func (e *cqe) describeFrame(wc *verbs.WC) bool {
	if e.right&layersRight == layersRight && e.headers>>2&3 == headerIPv4 {
		wc.Flags |= verbs.WCIPCsumOK
	}
	return true
}

// CreateFlow implements driver.FlowCreator. The kernel reads the kinds of the counters from memory
// that the request names.
func (c *mlx5Context) CreateFlow(r *driver.CreateFlow) error {
	if len(r.Counters) == 0 {
		return r.Do(driver.UHW{})
	}
	type request struct {
		abi.Mlx5IbCreateFlow
		abi.Mlx5IbFlowCountersData
	}
	n := pow2(uint32(len(r.Counters))) // of an array
	kinds, err := r.Alloc(int(n)*len(abi.Bytes(new(abi.Mlx5IbFlowCountersDesc))), nil)
	if err != nil {
		return err
	}
	list, err := mmap.NewArray[abi.Mlx5IbFlowCountersDesc](kinds, 0, n)
	if err != nil {
		return err
	}
	for i, p := range r.Counters {
		*list.At(uint32(i)) = abi.Mlx5IbFlowCountersDesc{Description: uint32(p.Counts), Index: p.Index}
	}
	req := request{abi.Mlx5IbCreateFlow{NcountersData: 1}, abi.Mlx5IbFlowCountersData{CountersData: kinds.Addr(), Ncounters: uint32(len(r.Counters))}}
	err = r.Do(driver.UHW{In: abi.Bytes(&req)})
	return errors.Join(err, r.Free(kinds))
}
