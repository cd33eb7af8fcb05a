package uverbs

import "fmt"

// DriverID says which kernel driver runs a device (enum rdma_driver_id).
type DriverID uint32

// The drivers that Linux numbers.
const (
	DriverUnknown  DriverID = 0
	DriverMLX5     DriverID = 1
	DriverMLX4     DriverID = 2
	DriverCXGB4    DriverID = 4
	DriverMTHCA    DriverID = 5
	DriverBNXTRE   DriverID = 6
	DriverOCRDMA   DriverID = 7
	DriverIRDMA    DriverID = 9
	DriverPVRDMA   DriverID = 10
	DriverQEDR     DriverID = 11
	DriverHNS      DriverID = 12
	DriverUSNIC    DriverID = 13
	DriverRXE      DriverID = 14
	DriverHFI1     DriverID = 15
	DriverQIB      DriverID = 16
	DriverEFA      DriverID = 17
	DriverSIW      DriverID = 18
	DriverERDMA    DriverID = 19
	DriverMANA     DriverID = 20
	maxKnownDriver          = 64
)

var driverNames = map[DriverID]string{
	DriverMLX5: "mlx5", DriverMLX4: "mlx4", DriverCXGB4: "cxgb4", DriverMTHCA: "mthca",
	DriverBNXTRE: "bnxt_re", DriverOCRDMA: "ocrdma", DriverIRDMA: "irdma", DriverPVRDMA: "vmw_pvrdma",
	DriverQEDR: "qedr", DriverHNS: "hns", DriverUSNIC: "usnic", DriverRXE: "rxe", DriverHFI1: "hfi1",
	DriverQIB: "qib", DriverEFA: "efa", DriverSIW: "siw", DriverERDMA: "erdma", DriverMANA: "mana",
}

func (d DriverID) String() string {
	if s, ok := driverNames[d]; ok {
		return s
	}
	return fmt.Sprintf("DriverID(%d)", uint32(d))
}
