package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// AH is an address handle: the way to a port, for work requests of UD QPs.
//
// C: struct ibv_ah
type AH = driver.AH

// addressHandle is an AH's place among the objects, and in the kernel.
type addressHandle struct {
	node
	pd        *PD
	handle    uint32
	setClosed func(bool) // tells work requests that name it
	memory    queueMemory
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
	h := &addressHandle{pd: pd}
	if err := h.attach("AH", &pd.node); err != nil {
		return nil, err
	}
	data, err := h.create(attr)
	if err != nil {
		h.detach()
		return nil, h.fail("create", err, ahHint(err, attr))
	}
	h.setNumber(h.handle)
	ah, setClosed := driver.NewAH(data, h.Close)
	h.setClosed = setClosed
	return ah, nil
}

func (h *addressHandle) create(attr *AHAttr) (data any, err error) {
	dev := h.pd.dev
	r := &AHRequest{Attr: *attr, PD: h.pd}
	r.creation = dev.creation(func(u UHW) error { return h.issueCreate(attr, u) })
	if data, err = dev.provider.CreateAH(r); err != nil {
		return nil, r.abandon(err, h.issueDestroy)
	}
	h.memory = r.queueMemory
	return data, nil
}

func (h *addressHandle) issueCreate(attr *AHAttr, u UHW) error {
	var resp abi.IbUverbsCreateAhResp
	in := &abi.IbUverbsCreateAh{PdHandle: h.pd.handle, Attr: ahToABI(attr)}
	r := writeCommand(h.pd.dev, abi.IB_USER_VERBS_CMD_CREATE_AH, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	r.Driver(u)
	if err := r.Do(h.pd.dev.file); err != nil {
		return err
	}
	h.handle = resp.AhHandle
	return nil
}

// Close is [AH.Close].
func (h *addressHandle) Close() error {
	return h.close(func() error {
		h.setClosed(true)
		err := h.issueDestroy()
		h.setClosed(err == nil)
		return err
	}, h.memory.free)
}

func (h *addressHandle) issueDestroy() error {
	r := h.pd.dev.request(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, h.handle)
	return r.Do(h.pd.dev.file)
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
