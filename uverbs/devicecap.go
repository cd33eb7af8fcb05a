package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// DeviceCap is a set of things that a device can do.
//
// C: enum ibv_device_cap_flags, with the bits that verbs.h defines apart
type DeviceCap = driver.DeviceCap

// Documented at [driver.DeviceCap].
const (
	DeviceCapResizeMaxWR         DeviceCap = driver.DeviceCapResizeMaxWR
	DeviceCapBadPKeyCounter      DeviceCap = driver.DeviceCapBadPKeyCounter
	DeviceCapBadQKeyCounter      DeviceCap = driver.DeviceCapBadQKeyCounter
	DeviceCapRawMulti            DeviceCap = driver.DeviceCapRawMulti
	DeviceCapAutoPathMig         DeviceCap = driver.DeviceCapAutoPathMig
	DeviceCapChangePhyPort       DeviceCap = driver.DeviceCapChangePhyPort
	DeviceCapUDAVPortEnforce     DeviceCap = driver.DeviceCapUDAVPortEnforce
	DeviceCapCurQPStateMod       DeviceCap = driver.DeviceCapCurQPStateMod
	DeviceCapShutdownPort        DeviceCap = driver.DeviceCapShutdownPort
	DeviceCapPortActiveEvent     DeviceCap = driver.DeviceCapPortActiveEvent
	DeviceCapSysImageGUID        DeviceCap = driver.DeviceCapSysImageGUID
	DeviceCapRCRNRNAKGen         DeviceCap = driver.DeviceCapRCRNRNAKGen
	DeviceCapSRQResize           DeviceCap = driver.DeviceCapSRQResize
	DeviceCapNNotifyCQ           DeviceCap = driver.DeviceCapNNotifyCQ
	DeviceCapMemWindow           DeviceCap = driver.DeviceCapMemWindow
	DeviceCapUDIPCsum            DeviceCap = driver.DeviceCapUDIPCsum
	DeviceCapXRC                 DeviceCap = driver.DeviceCapXRC
	DeviceCapMemMgtExtensions    DeviceCap = driver.DeviceCapMemMgtExtensions
	DeviceCapMemWindowType2A     DeviceCap = driver.DeviceCapMemWindowType2A
	DeviceCapMemWindowType2B     DeviceCap = driver.DeviceCapMemWindowType2B
	DeviceCapRCIPCsum            DeviceCap = driver.DeviceCapRCIPCsum
	DeviceCapRawIPCsum           DeviceCap = driver.DeviceCapRawIPCsum
	DeviceCapManagedFlowSteering DeviceCap = driver.DeviceCapManagedFlowSteering
	DeviceCapRawScatterFCS       DeviceCap = driver.DeviceCapRawScatterFCS
	DeviceCapPCIWriteEndPadding  DeviceCap = driver.DeviceCapPCIWriteEndPadding
	DeviceCapFlushGlobal         DeviceCap = driver.DeviceCapFlushGlobal
	DeviceCapFlushPersistent     DeviceCap = driver.DeviceCapFlushPersistent
	DeviceCapAtomicWrite         DeviceCap = driver.DeviceCapAtomicWrite
)
