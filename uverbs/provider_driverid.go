package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// DriverID says which kernel driver runs a device.
//
// C: enum rdma_driver_id
type DriverID = driver.ID

// The drivers that Linux numbers.
const (
	DriverUnknown DriverID = driver.Unknown
	DriverMLX5    DriverID = driver.MLX5
	DriverMLX4    DriverID = driver.MLX4
	DriverCXGB4   DriverID = driver.CXGB4
	DriverMTHCA   DriverID = driver.MTHCA
	DriverBNXTRE  DriverID = driver.BNXTRE
	DriverOCRDMA  DriverID = driver.OCRDMA
	DriverIRDMA   DriverID = driver.IRDMA
	DriverPVRDMA  DriverID = driver.PVRDMA
	DriverQEDR    DriverID = driver.QEDR
	DriverHNS     DriverID = driver.HNS
	DriverUSNIC   DriverID = driver.USNIC
	DriverRXE     DriverID = driver.RXE
	DriverHFI1    DriverID = driver.HFI1
	DriverQIB     DriverID = driver.QIB
	DriverEFA     DriverID = driver.EFA
	DriverSIW     DriverID = driver.SIW
	DriverERDMA   DriverID = driver.ERDMA
	DriverMANA    DriverID = driver.MANA
	DriverIonic   DriverID = driver.Ionic
)
