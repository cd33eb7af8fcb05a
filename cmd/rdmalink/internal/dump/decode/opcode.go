package decode

import "fmt"

// parts are the extended headers that an operation has, in their order.
type parts uint

const (
	hasRETH parts = 1 << iota
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImmDt
	hasIETH
	hasFETH
	isResponse // and therefore without XRCETH
)

// operation is the meaning of the lower five bits of an opcode (IBA specification,
// volume 1, table 38; FLUSH and ATOMIC_WRITE of annex A19).
type operation struct {
	name  string
	parts parts
}

var operations = map[byte]operation{
	0:  {"SEND_FIRST", 0},
	1:  {"SEND_MIDDLE", 0},
	2:  {"SEND_LAST", 0},
	3:  {"SEND_LAST_WITH_IMMEDIATE", hasImmDt},
	4:  {"SEND_ONLY", 0},
	5:  {"SEND_ONLY_WITH_IMMEDIATE", hasImmDt},
	6:  {"RDMA_WRITE_FIRST", hasRETH},
	7:  {"RDMA_WRITE_MIDDLE", 0},
	8:  {"RDMA_WRITE_LAST", 0},
	9:  {"RDMA_WRITE_LAST_WITH_IMMEDIATE", hasImmDt},
	10: {"RDMA_WRITE_ONLY", hasRETH},
	11: {"RDMA_WRITE_ONLY_WITH_IMMEDIATE", hasRETH | hasImmDt},
	12: {"RDMA_READ_REQUEST", hasRETH},
	13: {"RDMA_READ_RESPONSE_FIRST", hasAETH | isResponse},
	14: {"RDMA_READ_RESPONSE_MIDDLE", isResponse},
	15: {"RDMA_READ_RESPONSE_LAST", hasAETH | isResponse},
	16: {"RDMA_READ_RESPONSE_ONLY", hasAETH | isResponse},
	17: {"ACKNOWLEDGE", hasAETH | isResponse},
	18: {"ATOMIC_ACKNOWLEDGE", hasAETH | hasAtomicAckETH | isResponse},
	19: {"COMPARE_SWAP", hasAtomicETH},
	20: {"FETCH_ADD", hasAtomicETH},
	22: {"SEND_LAST_WITH_INVALIDATE", hasIETH},
	23: {"SEND_ONLY_WITH_INVALIDATE", hasIETH},
	28: {"FLUSH", hasFETH | hasRETH},
	29: {"ATOMIC_WRITE", hasRETH},
}

// Services are the upper three bits.
const (
	serviceRD  = 2
	serviceUD  = 3
	serviceCNP = 4
	serviceXRC = 5

	opcodeCNP = 0x81
)

var services = [8]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "service 6", "service 7"}

// opcodeOf splits an opcode. An unknown opcode is named by its number.
func opcodeOf(opcode byte) (service byte, op operation) {
	service = opcode >> 5
	if opcode == opcodeCNP {
		return service, operation{name: "CNP"}
	}
	op, ok := operations[opcode&31]
	if !ok || service == serviceCNP {
		return service, operation{name: fmt.Sprintf("opcode %#x", opcode)}
	}
	op.name = services[service] + " " + op.name
	return service, op
}
