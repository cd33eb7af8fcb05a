package rss

// Hash is how a device chooses among the WQs of a table.
//
// C: struct ibv_rx_hash_conf
type Hash struct {
	Function HashFunction
	Key      []byte // 40 bytes for Toeplitz
	Fields   HashFields
}

// HashFunction is a function of the fields of a packet.
//
// C: enum ibv_rx_hash_function_flags
type HashFunction uint8

// Toeplitz is the function of Microsoft's RSS.
const Toeplitz HashFunction = 1

// HashFields are the fields of a packet that count; the values combine with |.
//
// C: enum ibv_rx_hash_fields
type HashFields uint64

// The fields. Those of one IP version, and of one transport, go together.
const (
	SrcIPv4 HashFields = 1 << iota
	DstIPv4
	SrcIPv6
	DstIPv6
	SrcPortTCP
	DstPortTCP
	SrcPortUDP
	DstPortUDP
	IPSecSPI
	Inner HashFields = 1 << 31 // the fields of the inner packet, of a tunnel's
)
