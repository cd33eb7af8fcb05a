package rxe

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

func init() { driver.Register(provider{}) }

type provider struct{}

func (provider) ID() verbs.DriverID { return verbs.DriverRXE }

func (provider) ABI() (lowest, highest uint32) { return abiVersion, abiVersion }

// RXE_UVERBS_ABI_VERSION, which the uapi header gives no name.
const abiVersion = 2

// Open queries the device's capabilities first: the kernel uses an opcode as an index into
// a table without a bounds check, so opcodes that it does not know must not reach it.
func (provider) Open(r *driver.Open) (driver.Context, error) {
	if err := r.Do(driver.UHW{}); err != nil {
		return nil, err
	}
	attr, err := r.Device.Query(nil)
	if err != nil {
		return nil, err
	}
	return &rxeContext{device: r.Device, unbind: r.Device.Unbind, caps: attr.CapFlags}, nil
}

type rxeContext struct {
	device driver.Device
	unbind func(rkey uint32) bool // of device, made once
	caps   verbs.DeviceCap
}

// pd identifies the protection domain of an address handle.
type pd struct{ handle uint32 }

func (*rxeContext) AllocPD(r *driver.AllocPD) (any, error) {
	err := r.Do(driver.UHW{})
	return &pd{r.Handle}, err
}

// ah is an address handle; a send names it to the kernel by its number.
type ah struct {
	pd  any
	num uint32
}

func (*rxeContext) CreateAH(r *driver.CreateAH) (any, error) {
	var resp abi.RxeCreateAhResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return &ah{r.PD, resp.AhNum}, nil
}
