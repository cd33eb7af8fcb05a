package driver

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

// NewAH is for package uverbs, which says how the handle is closed and, with set,
// whether it is: a work request may name one that is.
func NewAH(data any, close func() error) (ah *AH, set func(closed bool)) {
	ah = &AH{data: data, close: close}
	return ah, ah.closed.Store
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
