package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// CreateXRCSRQ creates an SRQ that peers address by its number. Its completions hold an
// index of the SRQ in place of a QP's.
func (c *mlx5Context) CreateXRCSRQ(r *driver.CreateXRCSRQ) (driver.SRQ, error) {
	s := &srq{ctx: c, lock: r.Lock}
	s.target = &qp{ctx: c, typ: verbs.QPTypeXRCTarget, recvCQ: r.CQ.(*cq), srq: s, index: noIndex}
	if c.indexed {
		var err error
		if s.target.index, err = c.qps.Put(s.target); err != nil {
			return nil, err
		}
	}
	if err := s.init(&r.CreateSRQ); err != nil {
		c.qps.Delete(s.target.index, s.target)
		return nil, err
	}
	return s, nil
}

// CreateXRCTarget creates the QP without an index, because its completions name SRQs.
func (c *mlx5Context) CreateXRCTarget(r *driver.CreateXRCTarget) error {
	var req abi.Mlx5IbCreateQp
	if !c.indexed {
		req.Uidx = noIndex
	}
	var resp abi.Mlx5IbCreateQpResp
	return r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
}
