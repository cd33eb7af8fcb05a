package rtnetlink

import (
	"encoding/binary"
	"strings"
	"syscall"
)

// DCB is how a network device treats the eight priorities of Ethernet.
type DCB struct {
	HasPFC, HasETS bool
	PFC            uint8      // a bit a priority that is paused rather than dropped
	PFCSent        [8]uint64  // pause frames sent for each priority, if the driver counts them
	PFCReceived    [8]uint64  // and received
	Class          [8]uint8   // the traffic class of each priority
	Share          [8]uint8   // of each class, in percent, if bandwidth is shared
	Shared         [8]bool    // by ETS, in place of strict priority
	DSCP           [64]uint8  // the priority of each DSCP that has one
	HasDSCP        [64]bool   // which have
	Trust          []Selector // the sources of a packet's priority, if the device reports them
}

// Selector is a kind of number that a packet's priority comes from.
type Selector uint8

// Selectors of IEEE 802.1Q, and the kernel's own for the priority in a VLAN tag.
const (
	SelectDSCP Selector = 5
	SelectPCP  Selector = 24 // C: DCB_APP_SEL_PCP
)

// Numbers of linux/dcbnl.h and linux/rtnetlink.h.
const (
	rtmGetDCB      = 78
	dcbIEEEGet     = 21
	dcbIfname      = 1
	dcbIEEE        = 13
	ieeeETS        = 1
	ieeePFC        = 2
	ieeeAppTable   = 3
	ieeeAppTrust   = 11
	ieeeApp        = 1
	tsaETS         = 2
	etsSize        = 3 + 7*8
	etsBandwidth   = 3
	etsAlgorithm   = 3 + 2*8
	etsPriorities  = 3 + 3*8
	pfcEnabledByte = 1
	pfcRequests    = 8 // struct ieee_pfc: u64 a priority
	pfcIndications = pfcRequests + 8*8
	pfcSize        = pfcIndications + 8*8
)

// DCB reads the settings of a network device. It returns EOPNOTSUPP if the device
// has none.
func (r Route) DCB(netdev string) (*DCB, error) {
	body := append([]byte{syscall.AF_UNSPEC, dcbIEEEGet, 0, 0}, attr(dcbIfname, append([]byte(netdev), 0))...)
	replies, err := r(rtmGetDCB, false, body)
	if err != nil {
		return nil, err
	}
	d := new(DCB)
	for _, reply := range replies {
		eachAttr(reply[min(4, len(reply)):], func(typ uint16, value []byte) {
			if typ == dcbIEEE {
				eachAttr(value, d.take)
			}
		})
	}
	return d, nil
}

// take reads one of the tables.
func (d *DCB) take(typ uint16, value []byte) {
	switch {
	case typ == ieeeETS && len(value) >= etsSize:
		d.HasETS = true
		copy(d.Class[:], value[etsPriorities:])
		copy(d.Share[:], value[etsBandwidth:])
		for class := range d.Shared {
			d.Shared[class] = value[etsAlgorithm+class] == tsaETS
		}
	case typ == ieeePFC && len(value) > pfcEnabledByte:
		d.HasPFC, d.PFC = true, value[pfcEnabledByte]
		for p := range 8 {
			if len(value) < pfcSize {
				break
			}
			d.PFCSent[p] = binary.NativeEndian.Uint64(value[pfcRequests+8*p:])
			d.PFCReceived[p] = binary.NativeEndian.Uint64(value[pfcIndications+8*p:])
		}
	case typ == ieeeAppTable:
		eachAttr(value, func(typ uint16, app []byte) {
			if typ != ieeeApp || len(app) < 4 || Selector(app[0]) != SelectDSCP {
				return
			}
			if dscp := binary.NativeEndian.Uint16(app[2:]); dscp < 64 {
				d.DSCP[dscp], d.HasDSCP[dscp] = app[1]&7, true
			}
		})
	case typ == ieeeAppTrust:
		eachAttr(value, func(_ uint16, selector []byte) {
			if len(selector) > 0 {
				d.Trust = append(d.Trust, Selector(selector[0]))
			}
		})
	}
}

// Qdisc is a queue of a network device, as tc shows it.
type Qdisc struct {
	Kind string
	ECN  bool // it marks packets before it drops some
}

// Numbers of linux/rtnetlink.h and linux/pkt_sched.h.
const (
	rtmGetQdisc  = 38
	tcaKind      = 1
	tcaOptions   = 2
	fqCodelECN   = 4
	redParms     = 1
	redFlagsByte = 15
	redECN       = 1
)

// Qdiscs returns the queueing disciplines of a network device.
func (r Route) Qdiscs(index uint32) (all []Qdisc, err error) {
	body := make([]byte, 20) // struct tcmsg
	body[0] = syscall.AF_UNSPEC
	binary.NativeEndian.PutUint32(body[4:], index)
	replies, err := r(rtmGetQdisc, true, body)
	for _, reply := range replies {
		if len(reply) < len(body) || binary.NativeEndian.Uint32(reply[4:]) != index {
			continue
		}
		var q Qdisc
		var options []byte
		eachAttr(reply[len(body):], func(typ uint16, value []byte) {
			switch typ {
			case tcaKind:
				q.Kind = strings.TrimRight(string(value), "\x00")
			case tcaOptions:
				options = value
			}
		})
		eachAttr(options, func(typ uint16, value []byte) {
			switch {
			case q.Kind == "fq_codel" && typ == fqCodelECN && len(value) >= 4:
				q.ECN = binary.NativeEndian.Uint32(value) != 0
			case q.Kind == "red" && typ == redParms && len(value) > redFlagsByte:
				q.ECN = value[redFlagsByte]&redECN != 0
			}
		})
		all = append(all, q)
	}
	return all, err
}
