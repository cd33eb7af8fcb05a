package uverbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QueryPortSpeed asks for the bandwidth that a port, counted from 1, really has, in units of
// 100 Mb/s. A port of several bonded links has the bandwidth of all of them. It may be no product
// of the widths and speeds that [verbs.PortAttr] names. It needs Linux 7.2 and a driver that tells, of which
// mlx5 is one; otherwise the error matches [verbs.ErrNotSupported].
//
// C: ibv_query_port_speed
func (d *Device) QueryPortSpeed(port uint32) (speed uint64, err error) {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, uint64(port))
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &speed)
	if err := r.Do(d.file); err != nil {
		hint := d.methodHint(err, "DEVICE", "QUERY_PORT_SPEED")
		if hint == "" {
			hint = portHint(err)
		}
		return 0, d.fail(fmt.Sprintf("query the speed of port %d of", port), err, hint)
	}
	return speed, nil
}

// methodHint names a method that the kernel has since 7.2, where it or the driver has none.
func (d *Device) methodHint(err error, object, method string) string {
	if !ioctl.Unsupported(err) {
		return ""
	}
	return fmt.Sprintf("method %s of object %s is of Linux 7.2, and driver %v may have none", method, object, d.info.Driver)
}
