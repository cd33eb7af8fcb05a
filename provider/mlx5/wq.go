package mlx5

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

// wq is a standalone receive queue: a raw packet QP that has nothing else. An RSS QP
// distributes packets to it.
type wq struct{ *qp }

// CreateWQ implements driver.WQCreator. Completions name the WQ by the provider's index, so
// a device whose completions hold only numbers has no WQs.
func (c *mlx5Context) CreateWQ(r *driver.CreateWQ) (driver.WQ, error) {
	if !c.indexed {
		return nil, fmt.Errorf("%w: completions of this mlx5 device can't name a WQ", verbs.ErrNotSupported)
	}
	want := &driver.CreateQP{Type: verbs.QPTypeRawPacket, Cap: verbs.QPCap{MaxRecvWR: max(r.MaxWR, 1), MaxRecvSGE: r.MaxSGE}}
	size, err := c.sizes(want)
	if err != nil {
		return nil, err
	}
	w := wq{&qp{ctx: c, typ: verbs.QPTypeRawPacket, recvCQ: r.CQ.(*cq), index: noIndex}}
	if err := w.create(r, &size); err != nil {
		w.drop()
		return nil, err
	}
	r.MaxWR, r.MaxSGE = size.cap.MaxRecvWR, size.cap.MaxRecvSGE
	return &w, nil
}

func (w *wq) create(r *driver.CreateWQ, size *sizes) (err error) {
	c := w.ctx
	buf, err := r.Alloc(size.receiveBytes(), nil)
	if err != nil {
		return err
	}
	if err := w.layOut(buf, nil, 0, size); err != nil {
		return err
	}
	if w.record, err = c.records.take(); err != nil {
		return err
	}
	if w.index, err = c.qps.Put(w.qp); err != nil {
		return err
	}
	req := abi.Mlx5IbCreateWq{BufAddr: buf.Addr(), DbAddr: w.record.addr, RqWqeCount: size.receives,
		RqWqeShift: uint32(bits.TrailingZeros32(size.receiveSegs * segmentSize)), UserIndex: w.index}
	var resp abi.Mlx5IbCreateWqResp
	err = r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
	w.num = r.Num
	return err
}

// Modify implements driver.WQModifier. It empties a WQ that enters RESET.
func (w *wq) Modify(r *driver.ModifyWQ) error {
	var req abi.Mlx5IbModifyWq
	if err := r.Do(driver.UHW{In: abi.Bytes(&req)}); err != nil {
		return err
	}
	switch r.To {
	case rss.WQStateReset:
		w.state = verbs.QPStateReset
		w.rq.reset()
		w.qp.record.set(recvWord, 0)
	case rss.WQStateReady:
		w.state = verbs.QPStateRTR
	default:
		w.state = verbs.QPStateErr
	}
	return nil
}

// CreateRSSQP implements driver.WQCreator. The hash key has 40 bytes.
func (c *mlx5Context) CreateRSSQP(r *driver.CreateRSSQP) error {
	req := abi.Mlx5IbCreateQpRss{RxHashFieldsMask: uint64(r.Hash.Fields), RxHashFunction: uint8(r.Hash.Function), RxKeyLen: uint8(len(r.Hash.Key))}
	if len(r.Hash.Key) > len(req.RxHashKey) {
		return fmt.Errorf("%w: a key of %d bytes, want %d", verbs.ErrNotSupported, len(r.Hash.Key), len(req.RxHashKey))
	}
	copy(req.RxHashKey[:], r.Hash.Key)
	var resp abi.Mlx5IbCreateQpResp
	return r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
}
