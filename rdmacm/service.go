package rdmacm

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Service is a record of a service in InfiniBand's subnet administrator.
//
// C: struct ib_user_service_rec
type Service struct {
	ID    uint64
	Name  string // at most 63 bytes
	GID   verbs.GID
	PKey  uint16
	Lease time.Duration // how long the record is kept; see LeaseForEver
	Key   [16]byte
	Data  [64]byte // the meaning depends on the service
}

// LeaseForEver is the lease of a record that is kept until it is deleted.
const LeaseForEver = (1<<32 - 1) * time.Second

const maxServiceName = abi.RDMA_USER_CM_IB_SERVICE_NAME_SIZE - 1

// ResolveService queries InfiniBand's subnet administrator for the services with a name or, if the name is
// empty, with a service ID. The ID must be bound to an address (BindIB, Bind). EventAddrInfoResolved or
// EventAddrInfoError follows. After the former, QueryServices returns the services. It needs an
// InfiniBand link layer and a kernel newer than Linux 6.12.
//
// C: rdma_resolve_addrinfo
func (id *ID) ResolveService(name string, serviceID uint64) error {
	const op = "resolve a service for"
	if len(name) > maxServiceName {
		return &verbs.Error{Op: op, Object: id.String(), Err: syscall.EINVAL, Hint: "a service's name has at most 63 bytes"}
	}
	err := command(id, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, func(b *abi.RdmaUcmResolveIbService) {
		b.Id = id.handle
		if b.Ibs.Flags = abi.RDMA_USER_CM_IB_SERVICE_FLAG_ID; name != "" {
			b.Ibs.Flags = abi.RDMA_USER_CM_IB_SERVICE_FLAG_NAME
			copy(b.Ibs.ServiceName[:], name)
			return
		}
		b.Ibs.ServiceId = serviceID
	})
	return hinted(op, id, err, serviceHints)
}

var serviceHints = map[syscall.Errno]string{
	syscall.EINVAL:     newCommand,
	syscall.ENODATA:    "ResolveService found none",
	syscall.ENOSYS:     onlyInfiniBand,
	syscall.EOPNOTSUPP: onlyInfiniBand,
}

const onlyInfiniBand = "only InfiniBand has a subnet administrator, which Linux 6.12 can't query yet"

// maxServices is how many services fit into an answer.
const maxServices = 6

// QueryServices returns at most six of the services that ResolveService found. If there are none, the
// error matches syscall.ENODATA.
//
// C: rdma_query_addrinfo
func (id *ID) QueryServices() ([]Service, error) {
	type answer struct {
		abi.RdmaUcmQueryIbServiceResp
		services [maxServices]abi.IbUserServiceRec
	}
	r := newRequest[abi.RdmaUcmQuery, answer](abi.RDMA_USER_CM_CMD_QUERY)
	defer r.free()
	r.body.Response, r.body.Id, r.body.Option = r.respAddr(), id.handle, abi.RDMA_USER_CM_QUERY_IB_SERVICE
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return nil, hinted("query the services of", id, closedError(err), serviceHints)
	}
	services := make([]Service, min(r.resp.NumServiceRecs, maxServices))
	for i := range services {
		services[i] = decodeService(&r.resp.services[i])
	}
	return services, nil
}

func decodeService(w *abi.IbUserServiceRec) Service {
	name, _, _ := bytes.Cut(w.Name[:], []byte{0})
	s := Service{ID: uint64(nodeGUID(w.Id)), Name: string(name), GID: w.Gid, PKey: networkOrder(w.Pkey), Key: w.Key,
		Lease: time.Duration(hostOrder32(w.Lease)) * time.Second}
	data := append(s.Data[:0], w.Data8[:]...)
	for _, v := range w.Data16 {
		data = binary.NativeEndian.AppendUint16(data, v)
	}
	for _, v := range w.Data32 {
		data = binary.NativeEndian.AppendUint32(data, v)
	}
	for _, v := range w.Data64 {
		data = binary.NativeEndian.AppendUint64(data, v)
	}
	return s
}

// hostOrder32 converts a number that the kernel leaves in big endian.
func hostOrder32(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, v))
}
