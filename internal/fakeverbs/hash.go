package fakeverbs

import "slices"

// Hash is how a queue pair that deals packets out chooses among its WQs.
type Hash struct {
	Fields uint64
	Key    []byte
}

const (
	HashToeplitz = 1
	hashSrcIPv4  = 1 << 0
	hashDstIPv4  = 1 << 1
	hashSrcIPv6  = 1 << 2
	hashDstIPv6  = 1 << 3
	hashSrcTCP   = 1 << 4
	hashDstTCP   = 1 << 5
	hashSrcUDP   = 1 << 6
	hashDstUDP   = 1 << 7
	HashIPv4     = hashSrcIPv4 | hashDstIPv4
	HashIPv6     = hashSrcIPv6 | hashDstIPv6
	HashTCP      = hashSrcTCP | hashDstTCP
	HashUDP      = hashSrcUDP | hashDstUDP
	HashFields   = HashIPv4 | HashIPv6 | HashTCP | HashUDP
)

// Deal is the queue pair that stands for the WQ which a frame goes to, or nil.
func (qp *QP) Deal(f *Frame) *QP {
	wqs := qp.Table.WQs
	if w := wqs[toeplitz(qp.Hash.Key, qp.Hash.input(f))%uint32(len(wqs))]; w.Queue != nil {
		return w.Queue.StandIn()
	}
	return nil
}

// input are the fields that count, in the order of Microsoft's RSS: sources before destinations,
// addresses before ports.
func (h *Hash) input(f *Frame) (b []byte) {
	part := func(field uint64, header uint32, from, to int) {
		if v := f.headers[header]; h.Fields&field != 0 && v != nil {
			b = append(b, v[from:to]...)
		}
	}
	part(hashSrcIPv4, FlowIPv4, 0, 4)
	part(hashDstIPv4, FlowIPv4, 4, 8)
	part(hashSrcIPv6, FlowIPv6, 0, 16)
	part(hashDstIPv6, FlowIPv6, 16, 32)
	part(hashSrcTCP, FlowTCP, 2, 4)
	part(hashDstTCP, FlowTCP, 0, 2)
	part(hashSrcUDP, FlowUDP, 2, 4)
	part(hashDstUDP, FlowUDP, 0, 2)
	return b
}

// toeplitz adds up, for each bit of the input that is set, the 32 bits of the key from there on.
func toeplitz(key, input []byte) (sum uint32) {
	key = append(slices.Clone(key), 0)
	window := uint32(key[0])<<24 | uint32(key[1])<<16 | uint32(key[2])<<8 | uint32(key[3])
	for i, v := range input {
		next := key[i+4]
		for bit := 7; bit >= 0; bit-- {
			if v>>bit&1 != 0 {
				sum ^= window
			}
			window = window<<1 | uint32(next>>bit&1)
		}
	}
	return sum
}
