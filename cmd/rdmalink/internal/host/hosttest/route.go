package hosttest

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/rtnetlink"
)

// Rtnetlink answers as the kernel does: for network devices that are named it has DCB, for
// numbers it has queues.
type Rtnetlink struct {
	DCB    map[string]*rtnetlink.DCB
	Qdiscs map[uint32][]rtnetlink.Qdisc
	Cut    int // bytes that replies lack at their end
}

// Route is the answer to a request.
func (r *Rtnetlink) Route(typ uint16, dump bool, body []byte) (replies [][]byte, err error) {
	switch {
	case typ == 78 && !dump && bytes.HasPrefix(body, []byte{0, 21, 0, 0}) && len(body) >= 9: // RTM_GETDCB, DCB_CMD_IEEE_GET
		name := string(bytes.TrimRight(body[8:], "\x00"))
		d := r.DCB[name]
		if d == nil {
			return nil, syscall.EOPNOTSUPP
		}
		reply := append([]byte{0, 21, 0, 0}, attr(1, []byte(name+"\x00"))...)
		replies = append(replies, append(reply, attr(13|nested, ieee(d))...))
	case typ == 38 && dump && len(body) == 20: // RTM_GETQDISC
		for index, queues := range r.Qdiscs {
			for _, q := range queues {
				reply := make([]byte, 20)
				binary.NativeEndian.PutUint32(reply[4:], index)
				reply = append(reply, attr(1, []byte(q.Kind+"\x00"))...)
				replies = append(replies, append(reply, attr(2|nested, options(q))...))
			}
		}
	default:
		return nil, syscall.EINVAL
	}
	for i, reply := range replies {
		replies[i] = reply[:max(0, len(reply)-r.Cut)]
	}
	return replies, nil
}

const nested = 1 << 15

func attr(typ uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// ieee are the tables of DCB_ATTR_IEEE.
func ieee(d *rtnetlink.DCB) (b []byte) {
	if d.HasETS {
		ets := make([]byte, 3, 59)
		ets = append(ets, d.Share[:]...)
		ets = append(ets, make([]byte, 8)...)
		for _, shared := range d.Shared {
			algorithm := byte(0)
			if shared {
				algorithm = 2
			}
			ets = append(ets, algorithm)
		}
		ets = append(ets, d.Class[:]...)
		b = append(b, attr(1, append(ets, make([]byte, 24)...))...)
	}
	if d.HasPFC {
		b = append(b, attr(2, append([]byte{8, d.PFC}, make([]byte, 134)...))...)
	}
	var apps []byte
	for dscp, has := range d.HasDSCP {
		if has {
			apps = append(apps, attr(1, binary.NativeEndian.AppendUint16([]byte{5, d.DSCP[dscp]}, uint16(dscp)))...)
		}
	}
	b = append(b, attr(3|nested, apps)...)
	if d.Trust != nil {
		var trust []byte
		for _, s := range d.Trust {
			trust = append(trust, attr(3, []byte{byte(s)})...)
		}
		b = append(b, attr(11|nested, trust)...)
	}
	return b
}

// options returns the options of a queue with ECN.
func options(q rtnetlink.Qdisc) []byte {
	switch {
	case q.Kind == "fq_codel" && q.ECN:
		return attr(4, binary.NativeEndian.AppendUint32(nil, 1))
	case q.Kind == "red":
		parms := make([]byte, 16)
		if q.ECN {
			parms[15] = 1
		}
		return attr(1, parms)
	}
	return nil
}
