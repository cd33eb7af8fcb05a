package host

import (
	"encoding/binary"
	"strings"
	"syscall"
)

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

// Qdiscs are the queues of a network device.
func (m *Machine) Qdiscs(index uint32) (all []Qdisc, err error) {
	body := make([]byte, 20) // struct tcmsg
	body[0] = syscall.AF_UNSPEC
	binary.NativeEndian.PutUint32(body[4:], index)
	replies, err := m.Route(rtmGetQdisc, true, body)
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
