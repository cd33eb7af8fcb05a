package rdmatest

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	_ "github.com/goverbs/goverbs/provider/erdma" // programs know the provider of their own device only
	_ "github.com/goverbs/goverbs/provider/mlx5"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/verbs"
)

// Kind is what a device is like.
type Kind int

// The kinds of devices.
const (
	RXE   Kind = iota + 1 // soft RoCE: RC, UC and UD, SRQs, atomics, windows
	SIW                   // soft iWARP: RC through rdma_cm
	ERDMA                 // the network card of Alibaba Cloud: RC through rdma_cm, atomics, immediate data
	MLX5                  // the network cards of NVIDIA, on Ethernet: what RXE has, raw packets, flow rules, RSS
)

// Kinds are all there are.
var Kinds = []Kind{RXE, SIW, ERDMA, MLX5}

// kinds are what the kernel says of them.
var kinds = map[Kind]struct {
	name     string
	driver   uint32
	abi      uint64
	node     verbs.NodeType
	protocol string
}{
	RXE:   {"rxe", abi.RDMA_DRIVER_RXE, 2, verbs.NodeCA, "roce"},
	SIW:   {"siw", abi.RDMA_DRIVER_SIW, 1, verbs.NodeRNIC, "iw"},
	ERDMA: {"erdma", abi.RDMA_DRIVER_ERDMA, 1, verbs.NodeRNIC, "iw"},
	MLX5:  {"mlx5", abi.RDMA_DRIVER_MLX5, 1, verbs.NodeCA, "roce"},
}

// String is the name that devices of the kind begin with, as mlx5 of mlx5_0.
func (k Kind) String() string {
	if i, ok := kinds[k]; ok {
		return i.name
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// isIWARP tells that only the connection manager connects queue pairs, with TCP.
func (k Kind) isIWARP() bool { return k == SIW || k == ERDMA }
