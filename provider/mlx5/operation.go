package mlx5

import "github.com/goverbs/goverbs/verbs"

// operation is the device's number of a send's opcode, and the layout of its request.
type operation struct {
	code  uint8
	form  form
	wc    verbs.WCOpcode
	types uint8 // QP types that take it, one bit each
	imm   bool
}

type form uint8

const (
	formNone   form = iota // there is no such operation
	formSend               // data
	formRemote             // a remote address, then data
	formAtomic             // a remote address, operands, memory for the result
	formKeys               // bindings and invalidations: no data
)

const (
	typeRC = 1 << iota
	typeUC
	typeUD
	typeXRC // sends to SRQs
	typeRaw

	typesReliable  = typeRC | typeXRC
	typesConnected = typesReliable | typeUC
)

var operations = [...]operation{
	verbs.OpRDMAWrite:    {opWrite, formRemote, verbs.WCRDMAWrite, typesConnected, false},
	verbs.OpRDMAWriteImm: {opWriteImm, formRemote, verbs.WCRDMAWrite, typesConnected, true},
	verbs.OpSend:         {opSend, formSend, verbs.WCSend, typesConnected | typeUD | typeRaw, false},
	verbs.OpSendImm:      {opSendImm, formSend, verbs.WCSend, typesConnected | typeUD, true},
	verbs.OpSendWithInv:  {opSendInv, formSend, verbs.WCSend, typesReliable, false},
	verbs.OpRDMARead:     {opRead, formRemote, verbs.WCRDMARead, typesReliable, false},
	verbs.OpCompareSwap:  {opCompare, formAtomic, verbs.WCCompareSwap, typesReliable, false},
	verbs.OpFetchAdd:     {opFetchAdd, formAtomic, verbs.WCFetchAdd, typesReliable, false},
	verbs.OpLocalInv:     {opUMR, formKeys, verbs.WCLocalInv, typesConnected, false},
	verbs.OpBindMW:       {opUMR, formKeys, verbs.WCBindMW, typesConnected, false},
}

func typeBit(t verbs.QPType) uint8 {
	switch t {
	case verbs.QPTypeRC:
		return typeRC
	case verbs.QPTypeUC:
		return typeUC
	case verbs.QPTypeUD:
		return typeUD
	case verbs.QPTypeXRCInitiator:
		return typeXRC
	case verbs.QPTypeRawPacket:
		return typeRaw
	}
	return 0
}

func (c *mlx5Context) lookUp(t verbs.QPType, op verbs.Opcode) operation {
	if int64(op) >= int64(len(operations)) {
		return operation{}
	}
	o := operations[op]
	if o.types&typeBit(t) == 0 || o.form == formAtomic && !c.atomics {
		return operation{}
	}
	return o
}

// Supports implements driver.Supporter.
func (c *mlx5Context) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return c.lookUp(t, op).form != formNone
}
