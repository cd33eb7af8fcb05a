package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
)

// event decodes the reply to GET_EVENT: the ID and the kind of event (struct
// rdma_ucm_event_resp).
func event(m memory, addr uint64) []Arg {
	b := m(addr, 20)
	if b == nil {
		return nil
	}
	id, kind, status := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:]), int32(binary.NativeEndian.Uint32(b[16:]))
	args := []Arg{{"event", rdmacm.EventType(kind).String()}, {"id", fmt.Sprint(id)}}
	if status != 0 {
		args = append(args, Arg{"status", fmt.Sprint(status)})
	}
	return args
}
