package rdmatest

import (
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	_ "github.com/goverbs/goverbs/provider/efa"
	_ "github.com/goverbs/goverbs/provider/erdma"
	_ "github.com/goverbs/goverbs/provider/mlx5"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/verbs"
)

// Kind is a kind of device.
type Kind int

// The kinds of devices.
const (
	RXE   Kind = iota + 1 // soft RoCE: RC, UC and UD, SRQs, atomics, windows
	SIW                   // soft iWARP: RC through rdma_cm
	ERDMA                 // the network card of Alibaba Cloud: RC through rdma_cm, atomics, immediate data; DeviceOptions.RoCE
	MLX5                  // the network cards of NVIDIA, on Ethernet: what RXE has, raw packets, flow rules, RSS
	EFA                   // the network card of Amazon's cloud: SRD and UD, without order and without package rdmacm
)

// Kinds has the kinds whose queue pairs package rdmacm connects: all but EFA.
var Kinds = []Kind{RXE, SIW, ERDMA, MLX5}

// kindInfo describes a kind of device. It is an entry of the constructor table. No other file
// refers to a kind by name.
type kindInfo struct {
	name       string // the beginning of the devices' names
	nameFormat string // format of a device's name, which has the kind's name and a number
	driver     uint32
	abi        uint64 // version of the driver's ABI
	node       verbs.NodeType
	protocol   string // as netlink reports it
	rules      rules

	// softRoCE means that the transport is that of Linux's rxe:
	//   - A retry count of 7 has no limit.
	//   - The acknowledgement timeout also runs while the peer is not ready.
	//   - A depth of 0 for READs means none. Cards take it for 1.
	//   - The Q_Key of a datagram is never the queue pair's own.
	//   - A group's datagrams arrive only on a host that has joined the group.
	softRoCE bool
	// packets means that the transport is that of RoCE v2, and that the driver passes the path MTU and the timeouts to
	// it. Other devices have transports that are not known in detail.
	packets bool
	// flushes means that the device has the operation FLUSH, for which the connection manager gives rights.
	flushes bool
	// refusesAtOnce means that the driver connects TCP within rdma_connect, which then fails without a listener.
	refusesAtOnce bool
	// privateLimit is how much private data a message has room for, beside the depths of READs. It is 0 if all fits.
	privateLimit int
	// infiniBand means that a device may be on InfiniBand instead of Ethernet.
	infiniBand bool
	// roce has the rules of a device on RoCE v2 instead of iWARP. It is nil if there are no such
	// devices.
	roce rules
	// iwarp means that only the connection manager can connect queue pairs, over TCP.
	iwarp bool
	// noCM means that the connection manager does not support the device, which has a single GID.
	noCM bool
	// connectLimit is how long connecting over iWARP may take, and answerLimit how long the
	// peer may take to answer.
	connectLimit, answerLimit time.Duration
}

var kinds = map[Kind]kindInfo{
	RXE: {name: "rxe", nameFormat: "%v%d", driver: abi.RDMA_DRIVER_RXE, abi: 2, node: verbs.NodeCA, protocol: "roce", rules: rxeRules{},
		softRoCE: true, flushes: true, packets: true},
	SIW: {name: "siw", nameFormat: "%v%d", driver: abi.RDMA_DRIVER_SIW, abi: 1, node: verbs.NodeRNIC, protocol: "iw", rules: siwRules{},
		iwarp: true, refusesAtOnce: true, privateLimit: 252, connectLimit: 127 * time.Second, answerLimit: 10 * time.Second},
	ERDMA: {name: "erdma", nameFormat: "%v%d", driver: abi.RDMA_DRIVER_ERDMA, abi: 1, node: verbs.NodeRNIC, protocol: "iw", rules: erdmaRules{},
		roce: erdmaRoCERules{}, iwarp: true, connectLimit: 10 * time.Second, answerLimit: 20 * time.Second},
	MLX5: {name: "mlx5", nameFormat: "%v_%d", driver: abi.RDMA_DRIVER_MLX5, abi: 1, node: verbs.NodeCA, protocol: "roce", rules: mlx5Rules{},
		infiniBand: true, packets: true},
	EFA: {name: "efa", nameFormat: "%v_%d", driver: abi.RDMA_DRIVER_EFA, abi: 1, node: verbs.NodeUnspecified, rules: efaRules{}, noCM: true},
}

// defaultKind is the kind of devices whose options don't specify one.
const defaultKind = RXE

// String returns the beginning of the devices' names, such as mlx5 for mlx5_0.
func (k Kind) String() string {
	if i, ok := kinds[k]; ok {
		return i.name
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// onRoCE returns the description of a device of the kind that is on RoCE v2 instead of iWARP.
func (i kindInfo) onRoCE() kindInfo {
	i.node, i.protocol, i.rules, i.iwarp = verbs.NodeCA, "roce", i.roce, false
	return i
}
