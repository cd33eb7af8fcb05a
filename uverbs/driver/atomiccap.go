package driver

import "fmt"

// AtomicCap says with whose accesses a device's atomic operations are atomic.
//
// C: enum ibv_atomic_cap
type AtomicCap uint32

const (
	AtomicNone   AtomicCap = 0 // there are none
	AtomicHCA    AtomicCap = 1 // with those of the same device
	AtomicGlobal AtomicCap = 2 // also with those of other devices and of processors
)

// String gives none, HCA or global.
func (c AtomicCap) String() string {
	switch c {
	case AtomicNone:
		return "none"
	case AtomicHCA:
		return "HCA"
	case AtomicGlobal:
		return "global"
	}
	return fmt.Sprintf("AtomicCap(%d)", uint32(c))
}
