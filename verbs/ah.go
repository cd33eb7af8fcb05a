package verbs

import (
	"fmt"
	"os"
	"sync/atomic"
)

// AH is an address handle: the way to a port, for work requests of UD QPs.
//
// C: struct ibv_ah
type AH struct {
	data   any
	closed atomic.Bool
	close  func() error
}

// Data is what CreateAH of the provider returned, or nil when the handle is closed.
func (ah *AH) Data() any {
	if ah.closed.Load() {
		return nil
	}
	return ah.data
}

// Close destroys the address handle. Work requests that use it must have
// completed.
//
// C: ibv_destroy_ah
func (ah *AH) Close() error {
	if ah == nil {
		return fmt.Errorf("uverbs: close AH: %w: the pointer is nil", os.ErrInvalid)
	}
	return ah.close()
}

// NewAH is for package uverbs, which says how the handle is closed and, with set,
// whether it is: a work request may name one that is.
func NewAH(data any, close func() error) (ah *AH, set func(closed bool)) {
	ah = &AH{data: data, close: close}
	return ah, ah.closed.Store
}

// AHAttr is an address: the way to a port. On RoCE it has a Global part; DLID,
// SrcPathBits and StaticRate are InfiniBand's.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID    // whom to send to
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint32 // the own GID, see Device.ChooseGID; the kernel takes 255 at most
	HopLimit     uint8  // of multicast, where 0 gets nowhere; of unicast RoCE the kernel's route has it
	TrafficClass uint8  // IP's DSCP and ECN bits
	Global       bool   // the fields above are in use
	DLID         uint16
	SL           uint8 // 4 bits
	SrcPathBits  uint8
	StaticRate   uint8  // 0 means the port's
	Port         uint32 // the own one, from 1; the kernel takes 255 at most
}
