package verbs

import (
	"fmt"
	"os"
	"sync/atomic"
)

// AH is an address handle, the address of a port for work requests of UD QPs.
//
// C: struct ibv_ah
type AH struct {
	data   any
	closed atomic.Bool
	close  func() error
}

// Data returns the provider's data, or nil if the handle is closed. It is for providers.
func (ah *AH) Data() any {
	if ah.closed.Load() {
		return nil
	}
	return ah.data
}

// Close destroys the address handle. Work requests that use it must have completed.
//
// C: ibv_destroy_ah
func (ah *AH) Close() error {
	if ah == nil {
		return fmt.Errorf("uverbs: close AH: %w: the pointer is nil", os.ErrInvalid)
	}
	return ah.close()
}

// NewAH returns a handle that close closes. set marks it as closed or open, because a work request
// may name a closed one. NewAH is for package uverbs.
func NewAH(data any, close func() error) (ah *AH, set func(closed bool)) {
	ah = &AH{data: data, close: close}
	return ah, ah.closed.Store
}

// AHAttr is the address of a port. RoCE requires Global. DLID, SrcPathBits and StaticRate are for
// InfiniBand.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID    // destination
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint32 // the local GID, see uverbs.Device.ChooseGID; the kernel takes 255 at most
	HopLimit     uint8  // multicast needs more than 0; for unicast RoCE the kernel's route sets it
	TrafficClass uint8  // IP's DSCP and ECN bits
	Global       bool   // the fields above are used
	DLID         uint16
	SL           uint8 // 4 bits
	SrcPathBits  uint8
	StaticRate   uint8  // 0 means the port's rate
	Port         uint32 // the local port, from 1; the kernel takes 255 at most
}
