package rtnetlink

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func kernel(typ uint16, dump bool, body []byte) ([][]byte, error) {
	flags := 0
	if dump {
		flags = unix.NLM_F_DUMP
	}
	return UntilWhole(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(int(typ), flags)
		request.AddRawData(body)
		return request.Execute(unix.NETLINK_ROUTE, 0)
	})
}
