package rdmacm

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// UDPQKey is the Q_Key that the connection manager gives to every datagram queue
// pair of the port spaces UDP and IPoIB.
//
// C: RDMA_UDP_QKEY
const UDPQKey uint32 = 0x01234567

// UDParam is how to reach the peer of a datagram ID.
//
// C: struct rdma_ud_param
type UDParam struct {
	QPNum uint32
	QKey  uint32
	AH    verbs.AHAttr
}

// decodeUD returns the private data, which an Event keeps in one place.
func decodeUD(p *UDParam, w abi.RdmaUcmUdParam) []byte {
	*p = UDParam{QPNum: w.QpNum, QKey: w.Qkey, AH: ahAttr(&w.AhAttr)}
	return private(w.PrivateData[:], w.PrivateDataLen)
}
