package mlx5

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

func init() { driver.Register(provider{}) }

type provider struct{}

func (provider) ID() verbs.DriverID { return verbs.DriverMLX5 }

func (provider) ABI() (lowest, highest uint32) {
	return abi.MLX5_IB_UVERBS_ABI_VERSION, abi.MLX5_IB_UVERBS_ABI_VERSION
}

// mlx5Context is an open device.
type mlx5Context struct {
	device    driver.Device
	limits    abi.Mlx5IbAllocUcontextResp
	indexed   bool // completions name QPs by the provider's index, not by their numbers
	atomics   bool
	checksums bool // of raw packets
	tso       abi.Mlx5IbTsoCaps
	streams   verbs.DCStreams   // the most that a DCI may have
	qps       driver.Table[qp]  // by index or number; an SRQ of XRC has a target here
	srqs      driver.Table[srq] // by number, when completions name them
	records   records
	registers registers
	clock     clock
	ticks     ticks
}

// The numbers of registers that rdma-core requests for a context without dynamic UARs.
const (
	staticRegisters  = 16
	staticLowLatency = 4
	maxCQEVersion    = 1
)

// Open opens a device. It first sends the newest kernels' request, and a shorter one if the
// kernel refuses the length: the request has grown twice.
func (provider) Open(r *driver.Open) (driver.Context, error) {
	req := abi.Mlx5IbAllocUcontextReqV2{TotalNumBfregs: staticRegisters, NumLowLatencyBfregs: staticLowLatency,
		MaxCqeVersion: maxCQEVersion, LibCaps: abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR}
	c := &mlx5Context{device: r.Device}
	in, err := abi.Bytes(&req), error(nil)
	for _, length := range []int{len(in), requestWithVersion, requestWithFlags} {
		if err = r.Do(driver.UHW{In: in[:length], Out: abi.Bytes(&c.limits)}); !errors.Is(err, syscall.EINVAL) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return c.start()
}

// start sets up the context that the kernel's answer describes.
func (c *mlx5Context) start() (driver.Context, error) {
	if err := c.checkLimits(); err != nil {
		return nil, err
	}
	c.indexed = c.limits.CqeVersion == 1
	c.records = records{page: c.device.PageSize(), line: int(c.limits.CacheLineSize), alloc: c.device.Alloc}
	var private []byte
	if n := c.AttrBytes(); n > 0 {
		private = make([]byte, n)
	}
	attr, err := c.device.Query(private)
	if err != nil {
		return nil, err
	}
	more := readAttr(private)
	c.tso, c.streams = more.TsoCaps, streamsOf(more.DciStreamsCaps)
	c.atomics = attr.AtomicCap != verbs.AtomicNone
	c.checksums = attr.CapFlags&verbs.DeviceCapRawIPCsum != 0
	if err := c.registers.init(c); err != nil {
		return nil, errors.Join(err, c.registers.close(c))
	}
	return c, nil
}

// The lengths of older requests: up to the version of completions, and before it.
const (
	requestWithVersion = 24
	requestWithFlags   = 16
)

// checkLimits returns an error if the answer holds values that no device has. Completions
// name entries of queues with 16 bits.
func (c *mlx5Context) checkLimits() error {
	l := &c.limits
	line, page := l.CacheLineSize, uint32(c.device.PageSize())
	switch {
	case l.CqeVersion > maxCQEVersion:
		return fmt.Errorf("the kernel chose completion format %d, which was not requested", l.CqeVersion)
	case line < 8 || line > page || line&(line-1) != 0:
		return fmt.Errorf("the kernel returned invalid cache line size %d", line)
	case l.BfRegSize > uarSize-uarSend || l.BfRegSize%(2*blockSize) != 0:
		return fmt.Errorf("the kernel returned invalid register size %d", l.BfRegSize)
	case l.BfRegSize*uarRegisters > uarSize-uarSend:
		return fmt.Errorf("the kernel returned register size %d, but a UAR must hold two registers", l.BfRegSize)
	}
	l.MaxSendWqebb, l.MaxRecvWr, l.MaxSrqRecvWr = min(l.MaxSendWqebb, indexMask+1), min(l.MaxRecvWr, indexMask+1), min(l.MaxSrqRecvWr, indexMask)
	return nil
}

// pd is a protection domain. Its number on the device is not used.
type pd struct{}

// AllocPD implements driver.PDAllocator. The kernel requires room for an answer.
func (*mlx5Context) AllocPD(r *driver.AllocPD) (any, error) {
	var resp abi.Mlx5IbAllocPdResp
	return pd{}, r.Do(driver.UHW{Out: abi.Bytes(&resp)})
}

// ethernet reports whether a port is an Ethernet port. It looks at the first GID, which all
// ports have.
func (c *mlx5Context) ethernet(port int) (bool, error) {
	e, err := c.device.GID(port, 0)
	if err != nil {
		return false, err
	}
	return e.Type != verbs.GIDTypeIB, nil
}

// Close implements driver.Closer.
func (c *mlx5Context) Close() error { return c.registers.close(c) }

// Import implements driver.Importer. Static registers can't be shared, because each process
// would alternate between the halves of a register on its own.
func (provider) Import(r *driver.Open) (driver.Context, error) {
	c := &mlx5Context{device: r.Device}
	if err := r.Do(driver.UHW{}, driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, Out: abi.Bytes(&c.limits)}); err != nil {
		return nil, err
	}
	if c.limits.TotBfregs > 0 {
		return nil, fmt.Errorf("the context has registers of its own: %w", syscall.EINVAL)
	}
	return c.start()
}

// ImportPD implements driver.PDImporter.
func (c *mlx5Context) ImportPD(handle uint32) (any, error) {
	var number uint32
	return pd{}, c.device.Invoke(abi.UVERBS_OBJECT_PD, abi.MLX5_IB_METHOD_PD_QUERY,
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_PD_HANDLE, Handle: handle},
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_PD_RESP_PDN, Out: abi.Bytes(&number)})
}

// NullKey implements driver.NullKeyer.
func (c *mlx5Context) NullKey() (lkey uint32, ok bool) {
	return c.limits.DumpFillMkey, c.limits.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY != 0
}

// AttrBytes implements driver.AttrExtender.
func (c *mlx5Context) AttrBytes() int {
	if c.limits.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE == 0 {
		return 0
	}
	return len(abi.Bytes(new(abi.Mlx5IbQueryDeviceResp)))
}

// readAttr returns the kernel's private bytes of a device's attributes. Those that the kernel
// left out are 0.
func readAttr(private []byte) (r abi.Mlx5IbQueryDeviceResp) {
	copy(abi.Bytes(&r), private)
	return r
}

// ExtendAttr implements driver.AttrExtender.
func (c *mlx5Context) ExtendAttr(a *verbs.DeviceAttr, private []byte) {
	r := readAttr(private)
	a.TSO = verbs.TSOCaps{MaxPayload: r.TsoCaps.MaxTso, SupportedQPTypes: r.TsoCaps.SupportedQpts}
	a.RSS.HashFunctions, a.RSS.HashFields = r.RssCaps.RxHashFunction, r.RssCaps.RxHashFieldsMask
	a.DCStreams = streamsOf(r.DciStreamsCaps)
	p := &r.PacketPacingCaps
	a.PacketPacing = verbs.PacketPacingCaps{MinRate: p.QpRateLimitMin, MaxRate: p.QpRateLimitMax, SupportedQPTypes: p.SupportedQpts,
		Burst: p.CapFlags&abi.MLX5_IB_PP_SUPPORT_BURST != 0}
}
