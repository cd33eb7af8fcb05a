package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// driverDevice is a Device as its provider sees it: a driver.Device.
type driverDevice struct {
	*memory
	dev *Device
}

// Info implements driver.Device.
func (d driverDevice) Info() driver.Info {
	return driver.Info{Name: d.dev.info.Name, ABI: d.dev.info.ABI, Ports: d.dev.info.Ports}
}

// Query implements driver.Device.
func (d driverDevice) Query(out []byte) (*verbs.DeviceAttr, error) {
	if out == nil {
		return d.dev.Attr()
	}
	return d.dev.query(out)
}

// GID implements driver.Device.
func (d driverDevice) GID(port, index uint32) (*verbs.GIDEntry, error) {
	return d.dev.QueryGID(port, index)
}

// Invoke implements driver.Device.
func (d driverDevice) Invoke(object, method uint16, attrs ...driver.Attr) error {
	r := d.dev.request(object, method)
	defer r.Free()
	return d.dev.doWith(r, driver.UHW{}, attrs)
}

// AllocPD implements driver.Device.
func (d driverDevice) AllocPD(u driver.UHW) (handle uint32, err error) {
	return d.dev.issueAllocPD(u, nil)
}

// DeallocPD implements driver.Device.
func (d driverDevice) DeallocPD(handle uint32) error { return d.dev.issueDeallocPD(handle) }

// RegisterQueue implements driver.Device.
func (d driverDevice) RegisterQueue(pd uint32, queue *mmap.Region, u driver.UHW) (handle uint32, err error) {
	in := &abi.IbUverbsRegMr{Start: queue.Addr(), Length: uint64(queue.Len()), HcaVa: queue.Addr(),
		PdHandle: pd, AccessFlags: uint32(verbs.AccessLocalWrite)}
	resp, err := d.dev.issueRegMR(in, u, nil)
	return resp.MrHandle, err
}

// DeregisterQueue implements driver.Device.
func (d driverDevice) DeregisterQueue(handle uint32) error { return d.dev.issueDeregMR(handle) }

// Doorbell implements driver.Device.
func (d driverDevice) Doorbell(qp uint32) func() error {
	in := abi.IbUverbsPostSend{QpHandle: qp, WqeSize: sendWRSize}
	c := newCommand[abi.IbUverbsPostSend, abi.IbUverbsPostSendResp](d.dev, abi.IB_USER_VERBS_CMD_POST_SEND, in)
	return c.Do
}

// Notifier implements driver.Device.
func (d driverDevice) Notifier(cq uint32) func(solicitedOnly bool) error {
	n := &notifier{dev: d.dev, cq: cq}
	return n.arm
}

// notifier arms the CQs of drivers that are told so with a system call.
type notifier struct {
	dev            *Device
	cq             uint32
	any, solicited *ioctl.Command // nil until needed, as few CQs need both
}

// arm asks for one event and, but for the first time, allocates nothing.
func (n *notifier) arm(solicitedOnly bool) error {
	if solicitedOnly {
		return n.issue(&n.solicited, 1)
	}
	return n.issue(&n.any, 0)
}

func (n *notifier) issue(c **ioctl.Command, solicited uint32) error {
	if *c == nil {
		in := abi.IbUverbsReqNotifyCq{CqHandle: n.cq, SolicitedOnly: solicited}
		*c = newCommand[abi.IbUverbsReqNotifyCq, struct{}](n.dev, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, in)
	}
	return (*c).Do()
}

// Unbind implements driver.Device.
func (d driverDevice) Unbind(rkey uint32) bool { return d.dev.unbind(rkey) }

// Read implements driver.Device.
func (d driverDevice) Read(lkey uint32, addr uint64, b []byte) bool {
	return d.dev.regions.read(lkey, addr, b)
}

// Write implements driver.Device.
func (d driverDevice) Write(lkey uint32, addr uint64, b []byte) bool {
	return d.dev.regions.write(lkey, addr, b)
}
