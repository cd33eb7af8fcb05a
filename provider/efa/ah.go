package efa

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// address is an address handle of the kernel's. The device has one for a PD and a GID. Destroying it
// ends the work of all handles of that PD and GID, before Linux 7.3 even if others exist. So all
// handles of a program share an address.
type address struct {
	number  uint16
	users   int          // handles
	destroy func() error // of the handle that created it, which Destroy of that handle sets
}

// ah is an address handle.
type ah struct {
	pd      *pd
	gid     verbs.GID
	address *address
	creator bool
	number  uint16
}

// CreateAH creates a handle, or another one for an address that exists. SL, traffic class, flow label
// and hop limit have no effect on EFA.
func (c *efaContext) CreateAH(r *driver.CreateAH) (any, error) {
	if !r.Attr.Global {
		return nil, syscall.EINVAL
	}
	p := r.PD.(*pd)
	p.mu.Lock()
	defer p.mu.Unlock()
	to, creator := p.ahs[r.Attr.DGID], false
	if to == nil {
		var resp abi.EfaIbvCreateAhResp
		if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
			return nil, err
		}
		to, creator = &address{number: resp.EfaAddressHandle}, true
		p.ahs[r.Attr.DGID] = to
	}
	to.users++
	return &ah{pd: p, gid: r.Attr.DGID, address: to, creator: creator, number: to.number}, nil
}

// AHNumber implements driver.NumberedAH.
func (a *ah) AHNumber() uint16 { return a.number }

// Destroy implements driver.Destroyer. The last handle of an address destroys the kernel's, also if
// another one has created it.
func (a *ah) Destroy(do func() error) error {
	a.pd.mu.Lock()
	defer a.pd.mu.Unlock()
	to := a.address
	if a.creator {
		to.destroy = do
	}
	if to.users == 1 {
		if err := to.destroy(); err != nil {
			return err
		}
		delete(a.pd.ahs, a.gid)
	}
	to.users--
	return nil
}
