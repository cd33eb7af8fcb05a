package rdmacm

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// maxPaths is as many as a port can have to another.
const maxPaths = 6

// QueryPaths asks for the paths that ResolveRoute found, the one in use first. iWARP has
// none.
//
// C: id->route.path_rec
func (id *ID) QueryPaths() ([]Path, error) {
	type answer struct {
		abi.RdmaUcmQueryPathResp
		paths [maxPaths]abi.IbPathRecData
	}
	r := newRequest[abi.RdmaUcmQuery, answer](abi.RDMA_USER_CM_CMD_QUERY)
	defer r.free()
	r.body.Response, r.body.Id, r.body.Option = r.respAddr(), id.handle, abi.RDMA_USER_CM_QUERY_PATH
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return nil, commandError("query the paths of", id, closedError(err))
	}
	paths := make([]Path, min(r.resp.NumPaths, maxPaths))
	for i := range paths {
		paths[i] = parsePath(bytesOfRecord(r.resp.paths[i].PathRec))
	}
	return paths, nil
}

// SetPath takes the place of ResolveRoute: the connection uses this path.
// EventRouteResolved follows. It needs an ID whose address is resolved, on InfiniBand or
// RoCE.
//
// C: rdma_set_option(RDMA_OPTION_IB_PATH)
func (id *ID) SetPath(p *Path) error {
	record := p.wire()
	data := abi.IbPathRecData{Flags: usedPath, PathRec: view[[pathSize / 4]uint32](record[:])}
	return hinted("set option PATH", id, setOption(id, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, data), map[syscall.Errno]string{
		syscall.EINVAL: "the ID's address is not resolved, its route already is, or the transport has no paths",
	})
}

// usedPath is what the kernel wants a path's flags to say: it is for packets and
// messages of connection management, the first choice, and goes both ways.
const usedPath = 1<<0 | 1<<1 | 1<<3 | 1<<5

// bytesOfRecord is the record's bytes, which the structure has as words.
func bytesOfRecord(words [pathSize / 4]uint32) (b [pathSize]byte) {
	for i, word := range words {
		binary.NativeEndian.PutUint32(b[4*i:], word)
	}
	return b
}
