package sandbox

import (
	"encoding/binary"
	"reflect"
	"syscall"
)

// take is a command that comes by write(2): a doorbell, or an arming. The answer goes
// behind the command first, which is the only place that the kernel's side knows.
func (d *device) take(c *call, b []byte) result {
	const header = 8
	if len(b) < header {
		return result{errno: syscall.EINVAL}
	}
	size, answer := len(b), 4*int(binary.NativeEndian.Uint16(b[6:]))
	var to uint64
	b = append(b, make([]byte, answer)...)
	if answer > 0 && size >= header+8 {
		to = binary.NativeEndian.Uint64(b[header:])
		binary.NativeEndian.PutUint64(b[header:], uint64(reflect.ValueOf(&b[size]).Pointer()))
	}
	err := d.kernel.Command(b[:size])
	if err == nil && to != 0 {
		err = c.write(to, b[size:])
	}
	return done(size, err)
}
