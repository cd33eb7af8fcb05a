package efa

import (
	"fmt"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

func init() { driver.Register(provider{}) }

type provider struct{}

func (provider) ID() verbs.DriverID { return verbs.DriverEFA }

func (provider) ABI() (lowest, highest uint32) {
	return abi.EFA_UVERBS_ABI_VERSION, abi.EFA_UVERBS_ABI_VERSION
}

// efaContext is an open device: its limits, its queue pairs by number, and their generations.
type efaContext struct {
	device driver.Device
	limits abi.EfaIbvAllocUcontextResp
	attr   abi.EfaIbvExQueryDeviceResp
	qps    driver.Table[qp]

	mu          sync.Mutex
	generations map[uint32]uint32 // by the QP number's low bits, which are unique among QPs
	slots       uint32            // number of values of those bits, a power of two
}

// Open opens a device. Some devices require that a program knows their limits of the send queue.
func (provider) Open(r *driver.Open) (driver.Context, error) {
	c := &efaContext{device: r.Device, generations: make(map[uint32]uint32)}
	req := abi.EfaIbvAllocUcontextCmd{
		SupportedCaps: abi.EFA_ALLOC_UCONTEXT_CMD_SUPP_CAPS_TX_BATCH | abi.EFA_ALLOC_UCONTEXT_CMD_SUPP_CAPS_MIN_SQ_WR}
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&c.limits)}); err != nil {
		return nil, err
	}
	l := &c.limits
	const needed = abi.EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE | abi.EFA_USER_CMDS_SUPP_UDATA_CREATE_AH
	switch {
	case l.CmdsSuppUdataMask&needed != needed:
		return nil, fmt.Errorf("%w: this kernel's driver does not return its limits and the numbers of address handles", verbs.ErrNotSupported)
	case l.SubCqsPerCq == 0 || l.SubCqsPerCq > mostSubCQs:
		return nil, fmt.Errorf("the kernel returned %d queues of a CQ, which has 1 to %d", l.SubCqsPerCq, mostSubCQs)
	case l.MaxLlqSize < wqeSize:
		return nil, fmt.Errorf("the kernel returned send queues of %d bytes", l.MaxLlqSize)
	}
	if l.InlineBufSizeEx == 0 { // kernels before 7.0
		l.InlineBufSizeEx = l.InlineBufSize
	}
	attr, err := r.Device.Query(abi.Bytes(&c.attr))
	if err != nil {
		return nil, err
	}
	c.slots = pow2(min(max(attr.MaxQP, 1), maxQPN+1))
	return c, nil
}

// has reports whether the device has a capability, one of EFA_QUERY_DEVICE_CAPS_….
func (c *efaContext) has(capability uint32) bool { return c.attr.DeviceCaps&capability != 0 }

// nextGeneration returns the generation of a QP that was created or put into RESET. Numbers are used
// again soon, and completions of the number's former owner may come late. Their work requests have
// ids of another generation.
func (c *efaContext) nextGeneration(qpn uint32) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generations[qpn%c.slots]++
	return c.generations[qpn%c.slots]
}

// AttrBytes implements driver.AttrExtender.
func (c *efaContext) AttrBytes() int { return len(abi.Bytes(&c.attr)) }

// ExtendAttr implements driver.AttrExtender.
func (c *efaContext) ExtendAttr(a *verbs.DeviceAttr, private []byte) {
	var r abi.EfaIbvExQueryDeviceResp
	copy(abi.Bytes(&r), private)
	a.MaxRDMASize = r.MaxRdmaSize
	a.MaxQPWR = min(a.MaxQPWR, c.limits.MaxLlqSize/wqeSize)
}

// Supports implements driver.Supporter.
func (c *efaContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return c.form(t, op).head != 0
}

// pd is a protection domain, with its address handles.
type pd struct {
	mu  sync.Mutex // held during calls to the kernel that create and destroy handles
	ahs map[verbs.GID]*address
}

// AllocPD implements driver.PDAllocator. The PD's number is not used.
func (*efaContext) AllocPD(r *driver.AllocPD) (any, error) {
	return &pd{ahs: make(map[verbs.GID]*address)}, r.Do(driver.UHW{})
}
