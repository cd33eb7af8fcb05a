package driver

import "fmt"

// ID says which kernel driver runs a device.
//
// C: enum rdma_driver_id
type ID uint32

// The drivers that Linux numbers.
const (
	Unknown ID = 0
	MLX5    ID = 1
	MLX4    ID = 2
	CXGB4   ID = 4
	MTHCA   ID = 5
	BNXTRE  ID = 6
	OCRDMA  ID = 7
	IRDMA   ID = 9
	PVRDMA  ID = 10
	QEDR    ID = 11
	HNS     ID = 12
	USNIC   ID = 13
	RXE     ID = 14
	HFI1    ID = 15
	QIB     ID = 16
	EFA     ID = 17
	SIW     ID = 18
	ERDMA   ID = 19
	MANA    ID = 20
	Ionic   ID = 21
)

var idNames = map[ID]string{
	MLX5: "mlx5", MLX4: "mlx4", CXGB4: "cxgb4", MTHCA: "mthca",
	BNXTRE: "bnxt_re", OCRDMA: "ocrdma", IRDMA: "irdma", PVRDMA: "vmw_pvrdma",
	QEDR: "qedr", HNS: "hns", USNIC: "usnic", RXE: "rxe", HFI1: "hfi1",
	QIB: "qib", EFA: "efa", SIW: "siw", ERDMA: "erdma", MANA: "mana", Ionic: "ionic",
}

func (i ID) String() string {
	if s, ok := idNames[i]; ok {
		return s
	}
	return fmt.Sprintf("DriverID(%d)", uint32(i))
}
