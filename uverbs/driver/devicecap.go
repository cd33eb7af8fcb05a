package driver

import "github.com/goverbs/goverbs/internal/abi"

// DeviceCap is a set of things that a device can do.
//
// C: enum ibv_device_cap_flags, with the bits that verbs.h defines apart
type DeviceCap uint64

// The capabilities. Bits of newer kernels have no name here.
const (
	DeviceCapResizeMaxWR    = DeviceCap(abi.IB_UVERBS_DEVICE_RESIZE_MAX_WR)
	DeviceCapBadPKeyCounter = DeviceCap(abi.IB_UVERBS_DEVICE_BAD_PKEY_CNTR)
	DeviceCapBadQKeyCounter = DeviceCap(abi.IB_UVERBS_DEVICE_BAD_QKEY_CNTR)
	DeviceCapRawMulti       = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_MULTI)
	// DeviceCapAutoPathMig: QPs can go over to their alternate path.
	DeviceCapAutoPathMig     = DeviceCap(abi.IB_UVERBS_DEVICE_AUTO_PATH_MIG)
	DeviceCapChangePhyPort   = DeviceCap(abi.IB_UVERBS_DEVICE_CHANGE_PHY_PORT)
	DeviceCapUDAVPortEnforce = DeviceCap(abi.IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE)
	// DeviceCapCurQPStateMod: QPAttrCurState means something.
	DeviceCapCurQPStateMod   = DeviceCap(abi.IB_UVERBS_DEVICE_CURR_QP_STATE_MOD)
	DeviceCapShutdownPort    = DeviceCap(abi.IB_UVERBS_DEVICE_SHUTDOWN_PORT)
	DeviceCapPortActiveEvent = DeviceCap(abi.IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT)
	DeviceCapSysImageGUID    = DeviceCap(abi.IB_UVERBS_DEVICE_SYS_IMAGE_GUID)
	DeviceCapRCRNRNAKGen     = DeviceCap(abi.IB_UVERBS_DEVICE_RC_RNR_NAK_GEN)
	// DeviceCapSRQResize: SRQ.Resize works.
	DeviceCapSRQResize = DeviceCap(abi.IB_UVERBS_DEVICE_SRQ_RESIZE)
	DeviceCapNNotifyCQ = DeviceCap(abi.IB_UVERBS_DEVICE_N_NOTIFY_CQ)
	// DeviceCapMemWindow: windows of MWType1.
	DeviceCapMemWindow = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW)
	DeviceCapUDIPCsum  = DeviceCap(abi.IB_UVERBS_DEVICE_UD_IP_CSUM)
	DeviceCapXRC       = DeviceCap(abi.IB_UVERBS_DEVICE_XRC)
	// DeviceCapMemMgtExtensions: OpLocalInv and OpSendWithInv.
	DeviceCapMemMgtExtensions = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS)
	// DeviceCapMemWindowType2A and DeviceCapMemWindowType2B: windows of MWType2,
	// which belong to a QP number (2A) or to a QP and its PD (2B).
	DeviceCapMemWindowType2A     = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A)
	DeviceCapMemWindowType2B     = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B)
	DeviceCapRCIPCsum            = DeviceCap(abi.IB_UVERBS_DEVICE_RC_IP_CSUM)
	DeviceCapRawIPCsum           = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_IP_CSUM)
	DeviceCapManagedFlowSteering = DeviceCap(abi.IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING)
	DeviceCapRawScatterFCS       = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_SCATTER_FCS)
	DeviceCapPCIWriteEndPadding  = DeviceCap(abi.IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING)
	// DeviceCapFlushGlobal and DeviceCapFlushPersistent: OpFlush of that type.
	DeviceCapFlushGlobal     = DeviceCap(abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL)
	DeviceCapFlushPersistent = DeviceCap(abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT)
	// DeviceCapAtomicWrite: OpAtomicWrite.
	DeviceCapAtomicWrite = DeviceCap(abi.IB_UVERBS_DEVICE_ATOMIC_WRITE)
)

var deviceCapNames = map[int]string{
	0: "ResizeMaxWR", 1: "BadPKeyCounter", 2: "BadQKeyCounter", 3: "RawMulti", 4: "AutoPathMig", 5: "ChangePhyPort",
	6: "UDAVPortEnforce", 7: "CurQPStateMod", 8: "ShutdownPort", 10: "PortActiveEvent", 11: "SysImageGUID",
	12: "RCRNRNAKGen", 13: "SRQResize", 14: "NNotifyCQ", 17: "MemWindow", 18: "UDIPCsum", 20: "XRC",
	21: "MemMgtExtensions", 23: "MemWindowType2A", 24: "MemWindowType2B", 25: "RCIPCsum", 26: "RawIPCsum",
	29: "ManagedFlowSteering", 34: "RawScatterFCS", 36: "PCIWriteEndPadding", 38: "FlushGlobal",
	39: "FlushPersistent", 40: "AtomicWrite",
}

// String names the bits; one without a name prints as a number.
func (c DeviceCap) String() string { return bitNames(uint64(c), deviceCapNames) }
