package siw

import (
	"math/rand/v2"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

func init() { uverbs.Register(provider{}) }

type provider struct{}

func (provider) DriverID() uverbs.DriverID { return uverbs.DriverSIW }

func (provider) ABI() (lowest, highest uint32) { return abi.SIW_ABI_VERSION, abi.SIW_ABI_VERSION }

// OpenContext takes the device id that siw insists on telling.
func (provider) OpenContext(r *uverbs.ContextRequest) (uverbs.ProviderContext, error) {
	var resp abi.SiwUrespAllocCtx
	if err := r.Create(uverbs.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return siwContext{}, nil
}

type siwContext struct{}

// RegMR chooses the low byte of the new key at random, so that a stale key of
// an earlier region in the same slot is found out.
func (siwContext) RegMR(r *uverbs.MRRequest) error {
	req := abi.SiwUreqRegMr{StagKey: uint8(rand.Uint32())}
	var resp abi.SiwUrespRegMr
	return r.Create(uverbs.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
}

// CreateAH has nothing to make: iWARP has no datagrams.
func (siwContext) CreateAH(*uverbs.AHRequest) (any, error) { return nil, uverbs.ErrNotSupported }
