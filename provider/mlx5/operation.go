package mlx5

import "github.com/goverbs/goverbs/uverbs/driver"

// operation is what a send's opcode is to the device, and how its request is laid out.
type operation struct {
	code  uint8
	form  form
	wc    driver.WCOpcode
	types uint8 // of QPs that take it, a bit each
	imm   bool
}

type form uint8

const (
	formNone   form = iota // there is no such operation
	formSend               // data
	formRemote             // an address of the peer's, then data
	formAtomic             // an address, operands, where the result goes
	formKeys               // bindings, ends of keys: no data
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
	driver.OpRDMAWrite:    {opWrite, formRemote, driver.WCRDMAWrite, typesConnected, false},
	driver.OpRDMAWriteImm: {opWriteImm, formRemote, driver.WCRDMAWrite, typesConnected, true},
	driver.OpSend:         {opSend, formSend, driver.WCSend, typesConnected | typeUD | typeRaw, false},
	driver.OpSendImm:      {opSendImm, formSend, driver.WCSend, typesConnected | typeUD, true},
	driver.OpSendWithInv:  {opSendInv, formSend, driver.WCSend, typesReliable, false},
	driver.OpRDMARead:     {opRead, formRemote, driver.WCRDMARead, typesReliable, false},
	driver.OpCompareSwap:  {opCompare, formAtomic, driver.WCCompareSwap, typesReliable, false},
	driver.OpFetchAdd:     {opFetchAdd, formAtomic, driver.WCFetchAdd, typesReliable, false},
	driver.OpLocalInv:     {opUMR, formKeys, driver.WCLocalInv, typesConnected, false},
	driver.OpBindMW:       {opUMR, formKeys, driver.WCBindMW, typesConnected, false},
}

func typeBit(t driver.QPType) uint8 {
	switch t {
	case driver.QPTypeRC:
		return typeRC
	case driver.QPTypeUC:
		return typeUC
	case driver.QPTypeUD:
		return typeUD
	case driver.QPTypeXRCInitiator:
		return typeXRC
	case driver.QPTypeRawPacket:
		return typeRaw
	}
	return 0
}

func (c *mlx5Context) lookUp(t driver.QPType, op driver.Opcode) operation {
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
func (c *mlx5Context) Supports(t driver.QPType, op driver.Opcode) bool {
	return c.lookUp(t, op).form != formNone
}
