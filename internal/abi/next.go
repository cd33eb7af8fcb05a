package abi

import "structs"

//lint:file-ignore ST1003 the names are C's, as in the generated files

// Ids that are newer than the kernels whose headers the other files come from. They are those of the
// kernel headers in rdma-core 65, which its developers take from the kernel's development tree. A test
// compares them. When a released kernel has them, the generator writes them.
//
// C: rdma/ib_user_ioctl_cmds.h, rdma/ib_user_ioctl_verbs.h, rdma/ib_user_verbs.h, rdma/rdma_netlink.h
const (
	IB_UVERBS_DEVICE_CC_DMA_BOUNCE = 1 << 41

	IB_UVERBS_BUFFER_TYPE_DMABUF = 0
	IB_UVERBS_BUFFER_TYPE_VA     = 1

	IB_UVERBS_COMP_CNTR_ENTRY_COMP = 0
	IB_UVERBS_COMP_CNTR_ENTRY_ERR  = 1

	IB_UVERBS_COMP_CNTR_MODIFY_OP_SET = 0
	IB_UVERBS_COMP_CNTR_MODIFY_OP_INC = 1

	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND              = 1 << 0
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV              = 1 << 1
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ         = 1 << 2
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ  = 1 << 3
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE        = 1 << 4
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5
)

// IbUverbsBufferDesc is C's struct ib_uverbs_buffer_desc, 32 bytes.
type IbUverbsBufferDesc struct {
	_             structs.HostLayout
	Type          uint32
	Fd            int32
	Flags         uint32
	OptionalFlags uint32
	Addr          uint64
	Length        uint64
}
