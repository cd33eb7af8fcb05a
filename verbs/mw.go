package verbs

import "fmt"

// BindMW is what OpBindMW makes of a window.
//
// C: struct ibv_mw_bind_info, with the window and the key
type BindMW struct {
	MW     MW
	RKey   uint32 // the window's key from then on: IncRKey of the one before
	MR     MR     // must have AccessMWBind; nil and a Length of 0 end a type 1 binding
	Addr   uint64 // start of the window, in the region
	Length uint64 // bytes
	Access Access // what the peer may do
}

// MWType tells who chooses a window's key.
//
// C: enum ibv_mw_type
type MWType uint8

const (
	// MWType1 windows are bound with uverbs.MW.Bind only, which chooses the key.
	MWType1 MWType = 1
	// MWType2 windows are bound with OpBindMW to a key that the caller makes with
	// uverbs.IncRKey, and end with OpLocalInv or a peer's OpSendWithInv. On rxe they are
	// to be closed before the QP that they were bound through, and must not be
	// ended when they are not bound: its kernel crashes. OpLocalInv is refused then,
	// as far as is known here; what a peer sends is not.
	MWType2 MWType = 2
)

func (t MWType) String() string { return fmt.Sprintf("type %d", uint8(t)) }

// MW is a memory window as a work request names it.
type MW interface {
	Type() MWType
	RKey() uint32
}
