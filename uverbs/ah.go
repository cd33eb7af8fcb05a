package uverbs

import (
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// AH is an address handle: the way to a port, for work requests of UD QPs.
//
// C: struct ibv_ah
type AH struct {
	node
	pd     *PD
	handle uint32
	closed atomic.Bool
	driver any
	memory queueMemory
}

// CreateAH makes an address handle. On RoCE the address must be Global.
//
// C: ibv_create_ah
func (pd *PD) CreateAH(attr *AHAttr) (*AH, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "AH")
	}
	if attr == nil {
		return nil, &Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "no address"}
	}
	ah := &AH{pd: pd}
	if err := ah.attach("AH", &pd.node); err != nil {
		return nil, err
	}
	if err := ah.create(attr); err != nil {
		ah.detach()
		return nil, ah.fail("create", err, ahHint(err, attr))
	}
	ah.setNumber(ah.handle)
	return ah, nil
}

func (ah *AH) create(attr *AHAttr) error {
	dev := ah.pd.dev
	r := &AHRequest{Attr: *attr}
	r.creation = dev.creation(func(u UHW) error { return ah.issueCreate(attr, u) })
	driver, err := dev.provider.CreateAH(r)
	if err != nil {
		return r.abandon(err, ah.issueDestroy)
	}
	ah.driver, ah.memory = driver, r.queueMemory
	return nil
}

func (ah *AH) issueCreate(attr *AHAttr, u UHW) error {
	var resp abi.IbUverbsCreateAhResp
	in := &abi.IbUverbsCreateAh{PdHandle: ah.pd.handle, Attr: attr.toAHABI()}
	r := writeCommand(ah.pd.dev, abi.IB_USER_VERBS_CMD_CREATE_AH, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	r.Driver(u)
	if err := r.Do(ah.pd.dev.file); err != nil {
		return err
	}
	ah.handle = resp.AhHandle
	return nil
}

// PD returns the protection domain of the address handle.
func (ah *AH) PD() *PD { return ah.pd }

// Driver is for providers: what CreateAH made of the address, or nil when the
// handle is closed.
func (ah *AH) Driver() any {
	if ah.closed.Load() {
		return nil
	}
	return ah.driver
}

// Close destroys the address handle. Work requests that use it must have
// completed.
//
// C: ibv_destroy_ah
func (ah *AH) Close() error {
	return ah.close(func() error {
		ah.closed.Store(true)
		err := ah.issueDestroy()
		ah.closed.Store(err == nil)
		return err
	}, ah.memory.free)
}

func (ah *AH) issueDestroy() error {
	r := ah.pd.dev.request(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, ah.handle)
	return r.Do(ah.pd.dev.file)
}

func ahHint(err error, attr *AHAttr) string {
	switch {
	case unreachable(err):
		return noWayHint
	case errors.Is(err, errNoData):
		return emptySlotHint
	case !errors.Is(err, syscall.EINVAL):
		return createHint(err)
	case !attr.Global:
		return "RoCE needs a Global address: DGID and SGIDIndex"
	}
	return "no such port, or " + emptySlotHint + ", of DGID's family"
}

const emptySlotHint = "no such GID: SGIDIndex must be a used slot of the port's GID table (Device.ChooseGID)"
