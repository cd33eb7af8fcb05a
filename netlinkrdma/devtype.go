package netlinkrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// DeviceType says what a sub-device is there for.
//
// C: enum rdma_nl_dev_type
type DeviceType uint8

// The device types the kernel knows.
const (
	DeviceOrdinary DeviceType = 0
	DeviceSMI      DeviceType = 1 // has the subnet management interface of its parent
)

// String gives iproute2's word, nothing for an ordinary device, or
// DeviceType(27) for a value without a word.
func (t DeviceType) String() string {
	switch t {
	case DeviceOrdinary:
		return ""
	case DeviceSMI:
		return "smi"
	}
	return fmt.Sprintf("DeviceType(%d)", uint8(t))
}

// NameAssignType says who chose the name of a device.
//
// C: enum rdma_nl_name_assign_type
type NameAssignType uint8

// The origins there are.
const (
	NameAssignUnknown NameAssignType = abi.RDMA_NAME_ASSIGN_TYPE_UNKNOWN
	NameAssignUser    NameAssignType = abi.RDMA_NAME_ASSIGN_TYPE_USER
)

var nameAssignNames = [...]string{"UNKNOWN", "USER"}

// String gives USER for a name that must not be changed by rules, UNKNOWN, or
// NameAssignType(27) for a value without a word.
func (t NameAssignType) String() string {
	return wordFor("NameAssignType", nameAssignNames[:], uint8(t))
}
