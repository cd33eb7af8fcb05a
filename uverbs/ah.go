package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// addressHandle is an AH's place among the objects, and in the kernel.
type addressHandle struct {
	object
	pd        *PD
	handle    uint32
	setClosed func(bool) // tells work requests that name it
	made      bool       // in the kernel too
	data      any
	memory    *memory
}

// CreateAH makes an address handle. On RoCE the address must be Global.
//
// C: ibv_create_ah
func (pd *PD) CreateAH(attr *verbs.AHAttr) (*verbs.AH, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "AH")
	}
	if attr == nil {
		return nil, &Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "no address"}
	}
	if why := addressTooWide(attr); why != "" {
		return nil, &Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: why}
	}
	h := &addressHandle{pd: pd}
	if err := h.attach("AH", &pd.object); err != nil {
		return nil, err
	}
	if err := h.create(attr); err != nil {
		h.detach()
		return nil, h.fail("create", err, ahHint(err, attr))
	}
	if h.made {
		h.setNumber(h.handle)
	}
	ah, setClosed := verbs.NewAH(h.data, h.Close)
	h.setClosed = setClosed
	return ah, nil
}

func (h *addressHandle) create(attr *verbs.AHAttr) error {
	dev := h.pd.dev
	creator, ok := dev.provider.(driver.AHCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := dev.creation(func(u driver.UHW, extra []driver.Attr) error { return h.issueCreate(attr, u, extra) })
	data, err := creator.CreateAH(&driver.CreateAH{Call: c, Attr: *attr, PD: h.pd.data})
	h.data, h.memory, h.made = data, c.memory, c.done
	if err == nil && !c.done {
		return nil // it is all in user space
	}
	return c.made(err, h.issueDestroy)
}

func (h *addressHandle) issueCreate(attr *verbs.AHAttr, u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsCreateAhResp
	in := &abi.IbUverbsCreateAh{PdHandle: h.pd.handle, Attr: ahToABI(attr)}
	r := writeCommand(h.pd.dev, abi.IB_USER_VERBS_CMD_CREATE_AH, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := h.pd.dev.doWith(r, u, extra); err != nil {
		return err
	}
	h.handle = resp.AhHandle
	return nil
}

// Close is [verbs.AH.Close].
func (h *addressHandle) Close() error {
	return h.close(func() error {
		h.setClosed(true)
		err := destroy(h.data, h.issueDestroy)
		h.setClosed(err == nil)
		return err
	}, h.memory.free)
}

func (h *addressHandle) issueDestroy() error {
	if !h.made {
		return nil
	}
	r := h.pd.dev.request(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, h.handle)
	return r.Do(h.pd.dev.file)
}

func ahHint(err error, attr *verbs.AHAttr) string {
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
