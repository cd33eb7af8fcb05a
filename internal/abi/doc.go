// Package abi holds the kernel's RDMA structs and ids, generated from the Linux 6.12 headers: the ioctl and write commands of uverbs,
// the commands and events of rdma_cm, the ids of NETLINK_RDMA, and the queues of siw and rxe. Those of NETLINK_RDMA are of Linux 7.2, as are
// the ids of uverbs' objects, methods and attributes.
//
// Names follow C mechanically. A struct or field is its C name with every segment capitalised: struct ib_uverbs_qp_cap is IbUverbsQpCap,
// max_send_wr is MaxSendWr. A constant keeps its C name. Where C has no name for it, outer and member make one: IbUverbsSendWrRdma.
//
// The IB_* and RDMA_CM_EVENT_* enums that no uapi header defines, although their numbers cross the boundary, come from the kernel's own
// include/rdma.
//
// The layout is the same on amd64 and arm64; layout_test.go asks a C compiler for both. Three things differ from the headers:
//
//   - An array without a length at a struct's end is left out. Its elements follow the struct in memory.
//   - A union without a name is its first member: SiwSqe has Raddr and Sge, IbUverbsAttr has Data. SiwCqe.ImmData also carries
//     inval_stag, as its first four bytes in memory; SiwCqe.QpId is the number, not the kernel's pointer.
//   - A union with a name is bytes (RdmaUcmEventResp.Param holds a RdmaUcmConnParam or a RdmaUcmUdParam), or an integer where every
//     member has its size: IbUverbsAttr.AttrData, and Ex in work requests, where an immediate is big-endian in memory.
//     A struct __kernel_sockaddr_storage is 128 bytes, too.
package abi

//go:generate go run ../../test/cmd/vm headers
//go:generate go run ./gen -fetch
//go:generate go run ./gen -o .
//go:generate go run ./gen/names . nametables.go
