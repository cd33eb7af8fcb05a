package rsocket

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// device is a device whose queue pairs carry data to each other, on a goroutine of its
// own.
type device struct {
	*fakeverbs.Kernel
	f    *fabric
	rang chan struct{}
	stop chan struct{}
	idle sync.WaitGroup

	mu    sync.Mutex // guards what follows
	lent  map[uint64][]byte
	peers map[uint32]uint32 // QPN of QPN
}

func newDevice(f *fabric, driver uint32) *device {
	d := &device{Kernel: fakeverbs.New(driver), f: f, rang: make(chan struct{}, 1), stop: make(chan struct{}),
		lent: make(map[uint64][]byte), peers: make(map[uint32]uint32)}
	d.idle.Go(d.run)
	return d
}

func (d *device) Lend(addr uint64, b []byte) {
	d.Kernel.Lend(addr, b)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent[addr] = b
}

func (d *device) Return(addr uint64) {
	d.Kernel.Return(addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lent, addr)
}

func (d *device) Command(wire []byte) error {
	defer d.ring()
	return d.Kernel.Command(wire)
}

func (d *device) Ioctl(r *ioctl.Request) error {
	defer d.ring()
	return d.Kernel.Ioctl(r)
}

func (d *device) Close() error {
	close(d.stop)
	d.idle.Wait()
	return d.Kernel.Close()
}

func (d *device) ring() {
	select {
	case d.rang <- struct{}{}:
	default:
	}
}

func (d *device) run() {
	for {
		select {
		case <-d.rang:
		case <-d.stop:
			return
		}
		for d.carryAll() {
		}
	}
}

// carryAll carries at most one message of each queue pair, and reports whether there was
// one.
func (d *device) carryAll() (some bool) {
	for _, qp := range d.QueuePairs() {
		if qp.State() == abi.IB_QPS_RTS && d.carry(qp) {
			some = true
		}
	}
	return some
}

// work is a send as both drivers' queues have it.
type work struct {
	id        uint64
	signalled bool
	write     bool
	imm       uint32 // as it stands
	hasImm    bool
	addr      uint64
	key       uint32
	data      []byte
}

func (d *device) carry(qp *fakeverbs.QP) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.take(qp)
	if !ok {
		return false
	}
	peer := d.peer(qp)
	if peer == nil || peer.State() != abi.IB_QPS_RTS {
		d.complete(qp, &w, true)
		qp.Break()
		return true
	}
	if w.write && len(w.data) > 0 && !d.place(&w) {
		d.f.t.Errorf("%d bytes written to %#x with key %#x", len(w.data), w.addr, w.key)
	}
	if !w.write || w.hasImm {
		d.receive(peer, &w)
	}
	if w.signalled {
		d.complete(qp, &w, false)
	}
	return true
}

func (d *device) peer(qp *fakeverbs.QP) *fakeverbs.QP {
	qpn, ok := d.peers[qp.Num]
	all := d.QueuePairs()
	if i := slices.IndexFunc(all, func(p *fakeverbs.QP) bool { return ok && p.Num == qpn }); i >= 0 {
		return all[i]
	}
	return nil
}

func (d *device) take(qp *fakeverbs.QP) (w work, ok bool) {
	if qp.SIW != nil {
		s, ok := qp.SIW.TakeSend()
		w = work{id: s.Id, signalled: s.Flags&abi.SIW_WQE_SIGNALLED != 0, write: s.Opcode == abi.SIW_OP_WRITE, addr: s.Raddr, key: s.Rkey}
		if s.Flags&abi.SIW_WQE_INLINE != 0 {
			w.data = slices.Clone(abi.Bytes(&s.Sge)[16:][:s.Sge[0].Length])
			return w, ok
		}
		for _, e := range s.Sge[:s.NumSge] {
			w.data = append(w.data, d.at(e.Laddr, e.Length)...)
		}
		return w, ok
	}
	s, ok := qp.RXE.TakeSend()
	w = work{id: s.Wr.WrId, signalled: s.Wr.SendFlags&abi.IB_SEND_SIGNALED != 0, write: true, imm: s.Wr.Ex,
		hasImm: s.Wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
		addr:   binary.NativeEndian.Uint64(s.Wr.Wr[:]), key: binary.NativeEndian.Uint32(s.Wr.Wr[8:])}
	if s.Wr.SendFlags&abi.IB_SEND_INLINE != 0 {
		w.data = slices.Clone(s.Payload[:s.Dma.Length])
		return w, ok
	}
	for i := range s.Dma.NumSge {
		var e abi.RxeSge
		copy(abi.Bytes(&e), s.Payload[16*i:])
		w.data = append(w.data, d.at(e.Addr, e.Length)...)
	}
	return w, ok
}

// at finds lent memory.
func (d *device) at(addr uint64, n uint32) []byte {
	for start, b := range d.lent {
		if off := addr - start; addr >= start && off+uint64(n) <= uint64(len(b)) {
			return b[off:][:n]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x were not lent", n, addr))
}

// place carries out an RDMA WRITE if its key allows it. Entries of tables are written
// as devices do, 8 bytes at a time.
func (d *device) place(w *work) bool {
	for _, mr := range d.MRs() {
		if off := w.addr - mr.Start; mr.Key != w.key || mr.Access&abi.IB_UVERBS_ACCESS_REMOTE_WRITE == 0 || w.addr < mr.Start ||
			off+uint64(len(w.data)) > mr.Length {
			continue
		}
		to := d.at(w.addr, uint32(len(w.data)))
		if n := len(w.data); n != offerSize && n != mappingSize || w.addr%8 != 0 {
			copy(to, w.data)
			return true
		}
		for i := 0; i < len(w.data); i += 8 {
			storeWord(to[i:], binary.NativeEndian.Uint64(w.data[i:]))
		}
		return true
	}
	return false
}

func (d *device) receive(to *fakeverbs.QP, w *work) {
	if to.SIW != nil {
		r, ok := to.SIW.TakeRecv()
		if !ok {
			d.noReceive(to)
			return
		}
		copy(d.at(r.Sge[0].Laddr, r.Sge[0].Length), w.data)
		to.RecvCQ.SIW.Complete(abi.SiwCqe{Id: r.Id, Opcode: abi.SIW_OP_RECEIVE, Bytes: uint32(len(w.data)), QpId: uint64(to.Num)})
		return
	}
	r, ok := to.RXE.TakeRecv()
	if !ok {
		d.noReceive(to)
		return
	}
	to.RecvCQ.RXE.Complete(abi.IbUverbsWc{WrId: r.WrId, Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: uint32(len(w.data)), QpNum: to.Num,
		Ex: w.imm, WcFlags: abi.IB_WC_WITH_IMM})
}

// noReceive is a fault unless the queue pair is being closed.
func (d *device) noReceive(qp *fakeverbs.QP) {
	if qp.State() == abi.IB_QPS_RTS {
		d.f.t.Error("no receive was posted")
	}
}

func (d *device) complete(qp *fakeverbs.QP, w *work, failed bool) {
	if qp.SIW != nil {
		e := abi.SiwCqe{Id: w.id, Opcode: abi.SIW_OP_SEND, QpId: uint64(qp.Num)}
		if failed {
			e.Status = abi.SIW_WC_WR_FLUSH_ERR
		}
		qp.SendCQ.SIW.Complete(e)
		return
	}
	e := abi.IbUverbsWc{WrId: w.id, Opcode: abi.IB_WC_RDMA_WRITE, QpNum: qp.Num}
	if failed {
		e.Status = abi.IB_WC_RETRY_EXC_ERR
	}
	qp.SendCQ.RXE.Complete(e)
}
