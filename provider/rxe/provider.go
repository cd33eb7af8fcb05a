package rxe

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

func init() { uverbs.Register(provider{}) }

type provider struct{}

func (provider) DriverID() uverbs.DriverID { return uverbs.DriverRXE }

func (provider) ABI() (lowest, highest uint32) { return abiVersion, abiVersion }

// RXE_UVERBS_ABI_VERSION, which the uapi header gives no name.
const abiVersion = 2

// OpenContext asks at once what the device can do: the kernel looks up what to
// do with an opcode in a table without asking whether the table goes that far.
func (provider) OpenContext(r *uverbs.ContextRequest) (uverbs.ProviderContext, error) {
	if err := r.Create(uverbs.UHW{}); err != nil {
		return nil, err
	}
	attr, err := r.DeviceAttr()
	if err != nil {
		return nil, err
	}
	return &rxeContext{caps: attr.CapFlags}, nil
}

type rxeContext struct {
	caps uverbs.DeviceCap
}

// RegMR has nothing to tell the driver.
func (*rxeContext) RegMR(r *uverbs.MRRequest) error { return r.Create(uverbs.UHW{}) }

// ah is an address handle; a send names it to the kernel by its number.
type ah struct {
	pd  *uverbs.PD
	num uint32
}

func (*rxeContext) CreateAH(r *uverbs.AHRequest) (any, error) {
	var resp abi.RxeCreateAhResp
	if err := r.Create(uverbs.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return &ah{r.PD, resp.AhNum}, nil
}
