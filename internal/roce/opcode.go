package roce

// Parts are the extended headers that an operation has, in their order.
type Parts uint

// The parts of packets.
const (
	HasRETH Parts = 1 << iota
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
	HasFETH
	IsResponse // and therefore without XRCETH
)

// The services are the upper three bits of an opcode.
const (
	ServiceRC  = 0
	ServiceUC  = 1
	ServiceRD  = 2
	ServiceUD  = 3
	ServiceCNP = 4
	ServiceXRC = 5
)

// The operations are the lower five bits of an opcode.
const (
	SendFirst         = 0
	SendMiddle        = 1
	SendLast          = 2
	SendLastImm       = 3
	SendOnly          = 4
	SendOnlyImm       = 5
	WriteFirst        = 6
	WriteMiddle       = 7
	WriteLast         = 8
	WriteLastImm      = 9
	WriteOnly         = 10
	WriteOnlyImm      = 11
	ReadRequest       = 12
	ReadResponseFirst = 13
	ReadResponseMid   = 14
	ReadResponseLast  = 15
	ReadResponseOnly  = 16
	Acknowledge       = 17
	AtomicAcknowledge = 18
	CompareSwap       = 19
	FetchAdd          = 20
	SendLastInv       = 22
	SendOnlyInv       = 23
)

// Operation is the meaning of the lower five bits of an opcode (IBA specification,
// volume 1, table 38; FLUSH and ATOMIC_WRITE of annex A19).
type Operation struct {
	Name  string
	Parts Parts
}

// Operations are all operations, by their number.
var Operations = map[byte]Operation{
	SendFirst:         {"SEND_FIRST", 0},
	SendMiddle:        {"SEND_MIDDLE", 0},
	SendLast:          {"SEND_LAST", 0},
	SendLastImm:       {"SEND_LAST_WITH_IMMEDIATE", HasImmDt},
	SendOnly:          {"SEND_ONLY", 0},
	SendOnlyImm:       {"SEND_ONLY_WITH_IMMEDIATE", HasImmDt},
	WriteFirst:        {"RDMA_WRITE_FIRST", HasRETH},
	WriteMiddle:       {"RDMA_WRITE_MIDDLE", 0},
	WriteLast:         {"RDMA_WRITE_LAST", 0},
	WriteLastImm:      {"RDMA_WRITE_LAST_WITH_IMMEDIATE", HasImmDt},
	WriteOnly:         {"RDMA_WRITE_ONLY", HasRETH},
	WriteOnlyImm:      {"RDMA_WRITE_ONLY_WITH_IMMEDIATE", HasRETH | HasImmDt},
	ReadRequest:       {"RDMA_READ_REQUEST", HasRETH},
	ReadResponseFirst: {"RDMA_READ_RESPONSE_FIRST", HasAETH | IsResponse},
	ReadResponseMid:   {"RDMA_READ_RESPONSE_MIDDLE", IsResponse},
	ReadResponseLast:  {"RDMA_READ_RESPONSE_LAST", HasAETH | IsResponse},
	ReadResponseOnly:  {"RDMA_READ_RESPONSE_ONLY", HasAETH | IsResponse},
	Acknowledge:       {"ACKNOWLEDGE", HasAETH | IsResponse},
	AtomicAcknowledge: {"ATOMIC_ACKNOWLEDGE", HasAETH | HasAtomicAckETH | IsResponse},
	CompareSwap:       {"COMPARE_SWAP", HasAtomicETH},
	FetchAdd:          {"FETCH_ADD", HasAtomicETH},
	SendLastInv:       {"SEND_LAST_WITH_INVALIDATE", HasIETH},
	SendOnlyInv:       {"SEND_ONLY_WITH_INVALIDATE", HasIETH},
	28:                {"FLUSH", HasFETH | HasRETH},
	29:                {"ATOMIC_WRITE", HasRETH},
}

// Kinds of syndromes in an AETH, which are its upper three bits. The lower five are credits, a timer or a code.
const (
	SyndromeACK = 0 << 5
	SyndromeRNR = 1 << 5
	SyndromeNAK = 3 << 5
)

// NoCredits are the lower bits of an ACK that counts no credits.
const NoCredits = 31

// The codes of a NAK.
const (
	NAKSequence = iota
	NAKInvalidRequest
	NAKRemoteAccess
	NAKRemoteOperation
)
