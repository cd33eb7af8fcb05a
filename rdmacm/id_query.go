package rdmacm

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Addr is where an ID is. Before it is bound to a device, Port is 0 and
// DeviceIndex and NodeGUID mean nothing. PKey is InfiniBand's; the kernel leaves it
// 0 for RoCE, where all goes with 0xffff.
type Addr struct {
	Local, Remote netip.AddrPort
	DeviceIndex   uint32
	NodeGUID      verbs.GUID
	Port          uint32
	PKey          uint16
}

// QueryAddr asks the kernel for the ID's addresses and device.
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
		Port:        uint32(resp.PortNum),
		PKey:        resp.Pkey,
	}, nil
}

// isOn compares indexes unless the device has none because only sysfs could be
// asked about it.
func (a *Addr) isOn(info uverbs.DeviceInfo) bool {
	return a.NodeGUID == info.NodeGUID && (a.DeviceIndex == info.Index || info.Index == 0)
}

func (a *Addr) mustBeOn(info uverbs.DeviceInfo, what string) error {
	if a.isOn(info) {
		return nil
	}
	return &OpError{Op: "use the " + what, Object: info.Name, Err: syscall.EXDEV,
		Hint: fmt.Sprintf("needed is one on the RDMA device with index %d", a.DeviceIndex)}
}

// QueryGID asks for the GIDs at both ends of the path.
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
