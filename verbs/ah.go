package verbs

// AH is an address handle in a work request.
type AH interface {
	Attr() AHAttr
}

// AHAttr is the address of a port. RoCE requires Global. DLID, SrcPathBits and StaticRate are for
// InfiniBand.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID    // destination
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint32 // the local GID, see uverbs.Device.ChooseGID; the kernel takes 255 at most
	HopLimit     uint8  // multicast needs more than 0; for unicast RoCE the kernel's route sets it
	TrafficClass uint8  // IP's DSCP and ECN bits
	Global       bool   // the fields above are used
	DLID         uint16
	SL           uint8 // 4 bits
	SrcPathBits  uint8
	StaticRate   Rate // 0 means the port's rate
	Port         int  // the local port, from 1; the kernel takes 255 at most
}

// FlowLabelUDPPort returns the UDP source port of RoCE v2 packets with a flow label. Switches use
// the port to choose among paths. Only the 20 low bits of label count. Some drivers use another
// port for a label of 0.
//
// C: ibv_flow_label_to_udp_sport
func FlowLabelUDPPort(label uint32) uint16 {
	const bits = 0x3fff // of a dynamic port
	label &= 0xfffff
	return uint16(0xc000 | label&bits ^ label>>14)
}

// Rate is a limit of the speed at which packets leave for an address.
//
// C: enum ibv_rate
type Rate uint8

// rates has each rate as a multiple of 2.5 Gb/s, or 0 if it is not a multiple, and as a data rate
// in Mb/s. From 14 Gb/s on, at most 64 of 66 bits carry data, so names and data rates differ.
var rates = map[Rate]struct{ mult, mbps int }{
	2: {1, 2500}, 5: {2, 5000}, 3: {4, 10000}, 6: {8, 20000}, 4: {12, 30000}, 7: {16, 40000}, 8: {24, 60000}, 9: {32, 80000}, 10: {48, 120000},
	11: {0, 14062}, 12: {0, 56250}, 13: {0, 112500}, 14: {0, 168750}, 15: {0, 25781}, 16: {0, 103125}, 17: {0, 206250}, 18: {0, 309375},
	19: {11, 28125}, 20: {20, 53125}, 21: {160, 425000}, 22: {240, 637500}, 23: {320, 850000}, 24: {480, 1275000},
}

// Mbps returns the rate in Mb/s, or 0 for the port's rate and for rates that are not known.
//
// C: ibv_rate_to_mbps
func (r Rate) Mbps() int { return rates[r].mbps }

// Mult returns the rate in units of 2.5 Gb/s, or 0 if it is no such multiple.
//
// C: ibv_rate_to_mult
func (r Rate) Mult() int { return rates[r].mult }

// RateOfMbps returns the rate of exactly mbps Mb/s, or 0, which means the port's rate.
//
// C: mbps_to_ibv_rate
func RateOfMbps(mbps int) Rate { return rateOf(mbps, Rate.Mbps) }

// RateOfMult returns the rate of mult times 2.5 Gb/s, or 0, which means the port's rate.
//
// C: mult_to_ibv_rate
func RateOfMult(mult int) Rate { return rateOf(mult, Rate.Mult) }

func rateOf(n int, of func(Rate) int) Rate {
	for r := range rates {
		if n > 0 && of(r) == n {
			return r
		}
	}
	return 0
}
