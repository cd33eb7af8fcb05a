package rdmacm

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const needPrivilege = "a port below 1024 needs CAP_NET_BIND_SERVICE; for any other port, " + newCredentials

const onEFA = "; on EFA, which has no connection manager, use package oob"

var bindHints = map[syscall.Errno]string{
	syscall.EACCES:        needPrivilege,
	syscall.EADDRINUSE:    "another listener has that address and port",
	syscall.EADDRNOTAVAIL: "no interface here has that address, or another listener has the port: one on all addresses and one on a single address exclude each other",
	syscall.ENODEV:        "no RDMA device on the interface with that address; rdmalink show lists the devices" + onEFA,
}

// Bind sets the ID's local address. The unspecified address (0.0.0.0, ::) stands for all devices. With port
// 0 the kernel chooses a port, which QueryAddr returns.
//
// C: rdma_bind_addr
func (id *ID) Bind(addr netip.AddrPort) error {
	var sa [128]byte
	size, err := putSockaddr(&sa, addr)
	if err != nil {
		return &verbs.Error{Op: "bind", Object: addr.String(), Err: err}
	}
	err = command(id, abi.RDMA_USER_CM_CMD_BIND, func(b *abi.RdmaUcmBind) {
		b.Id, b.AddrSize, b.Addr = id.handle, size, sa
	})
	return hinted("bind", addr, err, bindHints)
}

// Listen makes the ID a listener. Connect requests arrive as events of type EventConnectRequest. The
// kernel queues backlog of them. The limit is the sysctl net.rdma_ucm.max_backlog; 0 and larger
// numbers stand for it.
//
// C: rdma_listen
func (id *ID) Listen(backlog int) error {
	err := command(id, abi.RDMA_USER_CM_CMD_LISTEN, func(b *abi.RdmaUcmListen) {
		b.Id, b.Backlog = id.handle, uint32(max(backlog, 0))
	})
	return hinted("listen", id, err, bindHints)
}

// ResolveAddr finds the RDMA device and the addresses for a destination. src may be the zero value.
// EventAddrResolved or EventAddrError follows. The latter has ETIMEDOUT if timeout has passed. timeout is
// rounded down to milliseconds, and is at least one.
//
// C: rdma_resolve_addr
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	const op = "resolve address"
	body := abi.RdmaUcmResolveAddr{Id: id.handle, TimeoutMs: milliseconds(timeout)}
	var err error
	if body.SrcSize, err = putSockaddr(&body.SrcAddr, src); err != nil {
		return &verbs.Error{Op: op, Object: src.String(), Err: err}
	}
	if body.DstSize, err = putSockaddr(&body.DstAddr, dst); err != nil {
		return &verbs.Error{Op: op, Object: dst.String(), Err: err}
	}
	err = command(id, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(b *abi.RdmaUcmResolveAddr) { *b = body })
	return resolveError(op, dst, err)
}

// ResolveRoute finds the path to the destination. EventRouteResolved or
// EventRouteError follows.
//
// C: rdma_resolve_route
func (id *ID) ResolveRoute(timeout time.Duration) error {
	err := command(id, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, func(b *abi.RdmaUcmResolveRoute) {
		b.Id, b.TimeoutMs = id.handle, milliseconds(timeout)
	})
	return commandError("resolve route", id, err)
}

// resolveError explains why the kernel finds no RDMA device or route to dst. err is the error of the
// command or of the event.
func resolveError(op string, dst netip.AddrPort, err error) error {
	if err == nil {
		return nil
	}
	hints := map[syscall.Errno]string{
		syscall.EADDRNOTAVAIL: "the source address belongs to no interface here, or is in use",
		syscall.ENETUNREACH:   "no route; ip route get shows what the kernel would do",
		syscall.EHOSTUNREACH:  "the neighbour does not answer",
		syscall.ETIMEDOUT:     "the neighbour, or the subnet manager, did not answer in time",
		syscall.EACCES:        needPrivilege,
	}
	none := "no RDMA device on the interface that routes to " + dst.Addr().String() +
		"; rdmalink show lists the devices, ip route get the interface" + onEFA
	if dst.Addr().IsLoopback() {
		none = "over lo a link works only if lo had a MAC address when the link was added" +
			" (ip link set lo address 02:00:00:00:00:01) and has an address outside 127/8 to dial from"
		hints[syscall.EINVAL] = none // the kernel's loopback path and a device without P_Keys
	}
	hints[syscall.ENODEV], hints[syscall.ENOENT] = none, none
	return hinted(op, dst, err, hints)
}

func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 1), 1<<31-1))
}

// Addr holds the addresses and the device of an ID. Before the ID is bound to a device, Port is 0, and
// DeviceIndex and NodeGUID have no meaning. PKey is for InfiniBand. For RoCE, which always uses
// 0xffff, the kernel leaves it 0.
type Addr struct {
	Local, Remote netip.AddrPort
	DeviceIndex   uint32
	NodeGUID      verbs.GUID
	Port          int
	PKey          uint16
}

// QueryAddr returns the ID's addresses and device.
//
// C: rdma_get_local_addr, rdma_get_peer_addr, id->verbs, id->port_num
func (id *ID) QueryAddr() (*Addr, error) {
	resp, err := id.query(abi.RDMA_USER_CM_QUERY_ADDR)
	if err != nil {
		return nil, err
	}
	return &Addr{
		Local:       sockaddr(&resp.SrcAddr),
		Remote:      sockaddr(&resp.DstAddr),
		DeviceIndex: resp.IbdevIndex,
		NodeGUID:    nodeGUID(resp.NodeGuid),
		Port:        int(resp.PortNum),
		PKey:        resp.Pkey,
	}, nil
}

// isOn reports whether the ID is on the device. A device that was found through sysfs alone has no index;
// then only the GUIDs are compared.
func (a *Addr) isOn(info uverbs.DeviceInfo) bool {
	return a.NodeGUID == info.NodeGUID && (a.DeviceIndex == info.Index || info.Index == 0)
}

func (a *Addr) mustBeOn(info uverbs.DeviceInfo, what string) error {
	if a.isOn(info) {
		return nil
	}
	return &verbs.Error{Op: "use the " + what, Object: info.Name, Err: syscall.EXDEV,
		Hint: fmt.Sprintf("it must belong to the RDMA device with index %d", a.DeviceIndex)}
}

// QueryGID returns the GIDs of both ends of the path.
//
// C: id->route.addr.addr.ibaddr
func (id *ID) QueryGID() (local, remote verbs.GID, err error) {
	resp, err := id.query(abi.RDMA_USER_CM_QUERY_GID)
	if err != nil {
		return local, remote, err
	}
	return sockaddrGID(&resp.SrcAddr), sockaddrGID(&resp.DstAddr), nil
}

func (id *ID) query(option uint32) (resp abi.RdmaUcmQueryAddrResp, err error) {
	r := newRequest[abi.RdmaUcmQuery, abi.RdmaUcmQueryAddrResp](abi.RDMA_USER_CM_CMD_QUERY)
	defer r.free()
	r.body.Response, r.body.Id, r.body.Option = r.respAddr(), id.handle, option
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return resp, commandError("query", id, closedError(err))
	}
	return r.resp, nil
}

// sockaddrGID finds the GID in a struct sockaddr_ib.
func sockaddrGID(b *[128]byte) verbs.GID { return verbs.GID(b[8:24]) }
