package siw

import (
	"fmt"
	"math/rand/v2"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

func init() { driver.Register(provider{}) }

type provider struct{}

func (provider) ID() verbs.DriverID { return verbs.DriverSIW }

func (provider) ABI() (lowest, highest uint32) { return abi.SIW_ABI_VERSION, abi.SIW_ABI_VERSION }

// Open implements driver.Provider. The kernel requires room for the device id in its
// answer; nothing uses the id.
func (provider) Open(r *driver.Open) (driver.Context, error) {
	var resp abi.SiwUrespAllocCtx
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return &siwContext{r.Device}, nil
}

type siwContext struct{ device driver.Device }

// RegMR chooses the low byte of the new key at random, so that a stale key of an earlier
// region in the same slot is detected. The kernel's driver accepts any IOVA, but then uses
// the memory's address (siw_reg_user_mr, TestRegMRAtSiw).
func (*siwContext) RegMR(r *driver.RegMR) error {
	if r.IOVA != r.Addr {
		return fmt.Errorf("%w: siw needs an iova equal to the memory's address", verbs.ErrNotSupported)
	}
	req := abi.SiwUreqRegMr{StagKey: uint8(rand.Uint32())}
	var resp abi.SiwUrespRegMr
	return r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
}
