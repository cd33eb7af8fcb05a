package fakeverbs

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// oldest is the first block that is not done.
func (q *MLX5QP) oldest() uint32 {
	q.busy = slices.DeleteFunc(q.busy, func(s *mlx5Send) bool { return !slices.Contains(q.qp.taken, s.Work) })
	switch {
	case len(q.busy) > 0:
		return q.busy[0].at
	case len(q.sends) > 0:
		return q.sends[0].at
	}
	return q.told
}

// nextSend answers a malformed send with an error, which is the end of the QP.
func (q *MLX5QP) nextSend() (*Work, bool) {
	if len(q.sends) == 0 || q.qp.state != abi.IB_QPS_RTS {
		return nil, false
	}
	s := q.sends[0]
	q.sends = slices.Delete(q.sends, 0, 1)
	if s.bad {
		q.sent(s.Work, 0x02, 0x68)
		q.fail()
		return nil, false
	}
	q.busy = append(q.busy, s)
	return s.Work, true
}

var mlx5Codes = map[uint32]uint8{
	abi.IB_UVERBS_WR_SEND_WITH_INV: 0x01, abi.IB_UVERBS_WR_RDMA_WRITE: 0x08, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: 0x09,
	abi.IB_UVERBS_WR_SEND: 0x0a, abi.IB_UVERBS_WR_SEND_WITH_IMM: 0x0b, abi.IB_UVERBS_WR_RDMA_READ: 0x10,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: 0x11, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: 0x12,
	abi.IB_UVERBS_WR_BIND_MW: 0x25, abi.IB_UVERBS_WR_LOCAL_INV: 0x25,
}

// sent writes the completion of a send.
func (q *MLX5QP) sent(w *Work, syndrome, vendor uint8) {
	c := &MLX5CQE{Opcode: mlx5CQERequest, WQEOpcode: mlx5Codes[w.Opcode], Counter: uint16(w.index), QPN: q.qp.Num, Queue: q.queue(),
		Syndrome: syndrome, Vendor: vendor, Bytes: w.Len(), Data: w.data}
	if syndrome != 0 {
		c.Opcode = mlx5CQEReqErr
	}
	q.qp.SendCQ.MLX5.complete(c)
}

// queue is the number that completions name the QP by.
func (q *MLX5QP) queue() uint32 {
	if q.m.version == 1 {
		return q.index
	}
	return 0
}

// The syndromes of errors, and the code that the device adds to each.
var mlx5Syndromes = map[uint32]uint8{
	abi.IB_WC_LOC_LEN_ERR: 0x01, abi.IB_WC_LOC_QP_OP_ERR: 0x02, abi.IB_WC_LOC_PROT_ERR: 0x04, abi.IB_WC_WR_FLUSH_ERR: 0x05,
	abi.IB_WC_MW_BIND_ERR: 0x06, abi.IB_WC_BAD_RESP_ERR: 0x10, abi.IB_WC_LOC_ACCESS_ERR: 0x11, abi.IB_WC_REM_INV_REQ_ERR: 0x12,
	abi.IB_WC_REM_ACCESS_ERR: 0x13, abi.IB_WC_REM_OP_ERR: 0x14, abi.IB_WC_RETRY_EXC_ERR: 0x15, abi.IB_WC_RNR_RETRY_EXC_ERR: 0x16,
	abi.IB_WC_REM_ABORT_ERR: 0x22,
}

func mlx5Syndrome(status uint32) (syndrome, vendor uint8) {
	if status == abi.IB_WC_SUCCESS {
		return 0, 0
	}
	if s, ok := mlx5Syndromes[status]; ok {
		return s, 0x80 | s
	}
	return 0x7f, 0xff
}

func (q *MLX5QP) sendDone(w *Work, status uint32, tell bool) {
	if !tell {
		return
	}
	syndrome, vendor := mlx5Syndrome(status)
	q.sent(w, syndrome, vendor)
}

func (q *MLX5QP) nextRecv() (*Recv, bool) {
	if q.qp.srq != nil {
		return q.qp.srq.MLX5.take()
	}
	return q.rq.next()
}

func (q *MLX5QP) oldestRecv() (*Recv, bool) {
	if s := q.qp.srq; s != nil {
		b, ok := s.MLX5.oldest()
		if !ok {
			return nil, false
		}
		to := new(Recv)
		q.m.scatter(named("SRQ"), to, b[16:])
		return to, true
	}
	b, _, ok := q.rq.oldest()
	to := new(Recv)
	q.m.scatter(q, to, b)
	return to, ok
}

// received writes the completion of a receive.
func (q *MLX5QP) received(r *Recv, c *MLX5CQE) {
	c.QPN, c.Counter, c.Queue = q.qp.Num, uint16(r.index), q.queue()
	if s := q.qp.srq; s != nil {
		s.MLX5.done(r.index)
		if q.m.version == 0 {
			c.Queue = s.MLX5.Num
		}
	} else {
		q.rq.done(r.index)
	}
	q.qp.RecvCQ.MLX5.complete(c)
}

func (q *MLX5QP) recvDone(r *Recv, wc abi.IbUverbsWc, solicited bool) {
	c := mlx5Received(r, &wc, solicited)
	if q.qp.Type == abi.IB_UVERBS_QPT_UD {
		c.From, c.SLID, c.Path = wc.SrcQp&0xffffff|uint32(wc.Sl&0xf)<<24, wc.Slid, wc.DlidPathBits
		if wc.WcFlags&abi.IB_WC_GRH != 0 {
			c.From |= 1 << 28
		}
	}
	if q.isRaw() && wc.WcFlags&abi.IB_WC_IP_CSUM_OK != 0 {
		c.Checks = mlx5IPv4OK
	}
	q.received(r, c)
}

// mlx5Received is what a completion of a receive says of any message.
func mlx5Received(r *Recv, wc *abi.IbUverbsWc, solicited bool) *MLX5CQE {
	c := &MLX5CQE{Opcode: mlx5CQERecv, Bytes: wc.ByteLen, Solicited: solicited, Data: r.data}
	switch {
	case wc.Status != abi.IB_WC_SUCCESS:
		c.Opcode = mlx5CQERespErr
		c.Syndrome, c.Vendor = mlx5Syndrome(wc.Status)
	case wc.WcFlags&abi.IB_WC_WITH_IMM != 0:
		if c.Opcode = mlx5CQERecvImm; wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM {
			c.Opcode = mlx5CQEWriteImm
		}
		binary.NativeEndian.PutUint32(c.Imm[:], wc.Ex)
	case wc.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		c.Opcode = mlx5CQERecvInv
		binary.BigEndian.PutUint32(c.Imm[:], wc.Ex)
	}
	return c
}

// fail flushes what the device was told of. Of receives on an SRQ it knows nothing.
func (q *MLX5QP) fail() {
	q.qp.state = abi.IB_QPS_ERR
	q.qp.flushTaken()
	sends := q.sends
	q.sends, q.busy = nil, nil
	for _, s := range sends {
		q.sendDone(s.Work, abi.IB_WC_WR_FLUSH_ERR, true)
	}
	if q.qp.srq != nil {
		q.qp.k.raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
		return
	}
	q.flushRecvs()
	q.lookLater(mlx5FirstLook)
}

const mlx5FirstLook, mlx5LastLook = time.Millisecond, 64 * time.Millisecond

// lookLater has the device look for receives after a time, and again more rarely, as long as
// the queue pair is in the error state.
func (q *MLX5QP) lookLater(after time.Duration) {
	if q.looker != nil {
		q.looker.Stop()
	}
	q.looker = time.AfterFunc(after, func() {
		q.m.k.mu.Lock()
		defer q.m.k.mu.Unlock()
		if q.qp.state == abi.IB_QPS_ERR {
			q.flushRecvs()
			q.lookLater(min(2*after, mlx5LastLook))
		}
	})
}

func (q *MLX5QP) flushRecvs() {
	for r, ok := q.rq.next(); ok; r, ok = q.rq.next() {
		q.recvDone(r, abi.IbUverbsWc{Status: abi.IB_WC_WR_FLUSH_ERR}, false)
	}
}

// Look has a queue pair in the error state flush the receives that were posted since, now. The
// device finds them by itself, some time later: nothing is stored to a register for a
// receive.
func (q *MLX5QP) Look() {
	q.m.k.mu.Lock()
	defer q.m.k.mu.Unlock()
	if q.qp.state == abi.IB_QPS_ERR && q.qp.srq == nil {
		q.flushRecvs()
	}
}

// Fail completes the oldest send with any syndrome, which is the end of the QP. It reports
// whether there was one.
func (q *MLX5QP) Fail(syndrome, vendor uint8) bool {
	q.m.k.mu.Lock()
	defer q.m.k.mu.Unlock()
	w, ok := q.nextSend()
	if ok {
		q.sent(w, syndrome, vendor)
		q.fail()
	}
	return ok
}

// FailRecv is Fail for a receive.
func (q *MLX5QP) FailRecv(syndrome, vendor uint8) bool {
	q.m.k.mu.Lock()
	defer q.m.k.mu.Unlock()
	r, ok := q.nextRecv()
	if ok {
		q.received(r, &MLX5CQE{Opcode: mlx5CQERespErr, Syndrome: syndrome, Vendor: vendor})
		q.fail()
	}
	return ok
}
