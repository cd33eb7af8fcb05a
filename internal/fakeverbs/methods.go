package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// methods are those of the core that a software device has, with the attributes
// that Linux 6.12 gives them.
var methods = map[[2]uint16]*method{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}: {"INVOKE_WRITE", (*Kernel).invokeWrite, udata(
		inMin(abi.UVERBS_ATTR_CORE_IN, 4).optional(),
		outMin(abi.UVERBS_ATTR_CORE_OUT, 0).optional(),
		enum(abi.UVERBS_ATTR_WRITE_CMD),
	)},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT}: {"QUERY_PORT", (*Kernel).queryPort, []attr{
		enum(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM),
		outMin(abi.UVERBS_ATTR_QUERY_PORT_RESP, 48),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}: {"GET_CONTEXT", (*Kernel).getContext, udata(
		out(abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4).optional(),
		out(abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8).optional(),
	)},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT}: {"QUERY_CONTEXT", (*Kernel).queryContext, contextAttrs},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE}: {"QUERY_GID_TABLE", (*Kernel).queryGIDTable, []attr{
		enum(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE),
		flags(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS).optional(),
		outMin(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
		out(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY}: {"QUERY_GID_ENTRY", (*Kernel).queryGIDEntry, []attr{
		enum(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT),
		enum(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
		flags(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS),
		outMin(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32),
	}},
	{abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC}: {"ASYNC_EVENT_ALLOC", (*Kernel).asyncEventAlloc, []attr{
		obj(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE),
	}},
	{abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY}: {"PD_DESTROY", (*Kernel).destroyPD, destroys(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY}: {"MR_DESTROY", (*Kernel).destroyMR, destroys(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR}: {"ADVISE_MR", (*Kernel).adviseMR, []attr{
		obj(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE),
		enum(abi.UVERBS_ATTR_ADVISE_MR_ADVICE),
		flags(abi.UVERBS_ATTR_ADVISE_MR_FLAGS),
		inMin(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, 16),
	}},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_QUERY_MR}: {"QUERY_MR", (*Kernel).queryMR, []attr{
		obj(abi.UVERBS_ATTR_QUERY_MR_HANDLE),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8).optional(),
	}},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR}: {"REG_DMABUF_MR", (*Kernel).regDMABuf, []attr{
		obj(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE),
		obj(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
		in(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8),
		in(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8),
		in(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8),
		in(abi.UVERBS_ATTR_REG_DMABUF_MR_FD, 4),
		flags(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS).optional(),
		out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4),
		out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4),
	}},
	{abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY}: {"XRCD_DESTROY", (*Kernel).destroyXRCD, destroys(abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE)},
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE}: {"WQ_CREATE", (*Kernel).createWQ, udata(
		obj(abi.UVERBS_ATTR_CREATE_WQ_HANDLE),
		obj(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE),
		obj(abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE).optional(),
		in(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 8),
		enum(abi.UVERBS_ATTR_CREATE_WQ_TYPE),
		obj(abi.UVERBS_ATTR_CREATE_WQ_EVENT_FD).optional(),
		in(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR, 4),
		in(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE, 4),
		flags(abi.UVERBS_ATTR_CREATE_WQ_FLAGS),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, 4),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, 4),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, 4).optional(),
	)},
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_DESTROY}: {"WQ_DESTROY", (*Kernel).destroyWQ, []attr{
		obj(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE),
		out(abi.UVERBS_ATTR_DESTROY_WQ_RESP, 4),
	}},
	{abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY}: {"RWQ_IND_TBL_DESTROY", (*Kernel).destroyIndTable,
		destroys(abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE)},
	{abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY}: {"FLOW_DESTROY", (*Kernel).destroyFlow, destroys(abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE)},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_CREATE}: {"COUNTERS_CREATE", (*Kernel).createCounters, []attr{
		obj(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE),
	}},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_DESTROY}: {"COUNTERS_DESTROY", (*Kernel).destroyCounters,
		destroys(abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_READ}: {"COUNTERS_READ", (*Kernel).readCounters, []attr{
		obj(abi.UVERBS_ATTR_READ_COUNTERS_HANDLE),
		outMin(abi.UVERBS_ATTR_READ_COUNTERS_BUFF, 0),
		flags(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS).optional(),
	}},
	{abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_ALLOC}: {"DM_ALLOC", (*Kernel).allocDM, allocDMAttrs},
	{abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_FREE}:  {"DM_FREE", (*Kernel).freeDM, destroys(abi.UVERBS_ATTR_FREE_DM_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_DM_MR_REG}: {"DM_MR_REG", (*Kernel).regDM, []attr{
		obj(abi.UVERBS_ATTR_REG_DM_MR_HANDLE),
		in(abi.UVERBS_ATTR_REG_DM_MR_OFFSET, 8),
		in(abi.UVERBS_ATTR_REG_DM_MR_LENGTH, 8),
		obj(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE),
		flags(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS).optional(),
		obj(abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE),
		out(abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4),
		out(abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES}: {"INFO_HANDLES", (*Kernel).infoHandles, []attr{
		enum(abi.UVERBS_ATTR_INFO_OBJECT_ID),
		out(abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, 4).optional(),
		outMin(abi.UVERBS_ATTR_INFO_HANDLES_LIST, 4).optional(),
	}},
	{abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY}: {"AH_DESTROY", (*Kernel).destroyAH, destroys(abi.UVERBS_ATTR_DESTROY_AH_HANDLE)},
	{abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY}: {"MW_DESTROY", (*Kernel).destroyMW, destroys(abi.UVERBS_ATTR_DESTROY_MW_HANDLE)},
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}: {"CQ_CREATE", (*Kernel).createCQ, udata(
		obj(abi.UVERBS_ATTR_CREATE_CQ_HANDLE),
		in(abi.UVERBS_ATTR_CREATE_CQ_CQE, 4),
		in(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8),
		obj(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL).optional(),
		in(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4),
		flags(abi.UVERBS_ATTR_CREATE_CQ_FLAGS).optional(),
		out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
		obj(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD).optional(),
	)},
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}: {"CQ_DESTROY", (*Kernel).destroyCQ, []attr{
		obj(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE),
		out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, 8),
	}},
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}: {"QP_CREATE", (*Kernel).createQP, udata(
		obj(abi.UVERBS_ATTR_CREATE_QP_HANDLE),
		obj(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE).optional(),
		in(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8),
		inMin(abi.UVERBS_ATTR_CREATE_QP_CAP, 20),
		enum(abi.UVERBS_ATTR_CREATE_QP_TYPE),
		flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS).optional(),
		in(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN, 4).optional(),
		obj(abi.UVERBS_ATTR_CREATE_QP_EVENT_FD).optional(),
		outMin(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, 20),
		out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4),
	)},
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}: {"QP_DESTROY", (*Kernel).destroyQP, []attr{
		obj(abi.UVERBS_ATTR_DESTROY_QP_HANDLE),
		out(abi.UVERBS_ATTR_DESTROY_QP_RESP, 4),
	}},
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE}: {"SRQ_CREATE", (*Kernel).createSRQ, udata(
		obj(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE),
		obj(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
		obj(abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE).optional(),
		obj(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE).optional(),
		in(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8),
		in(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4),
		in(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4),
		in(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, 4),
		enum(abi.UVERBS_ATTR_CREATE_SRQ_TYPE),
		obj(abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD).optional(),
		out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4),
		out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4),
		out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, 4).optional(),
	)},
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY}: {"SRQ_DESTROY", (*Kernel).destroySRQ, []attr{
		obj(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE),
		out(abi.UVERBS_ATTR_DESTROY_SRQ_RESP, 4),
	}},
}

// driverMethods are those of drivers' own objects.
var driverMethods = map[uint32]map[[2]uint16]*method{abi.RDMA_DRIVER_MLX5: mlx5Methods}

// methodOf finds a method of a driver's or of the core's, or nil.
func methodOf(driver uint32, object, number uint16) *method {
	id := [2]uint16{object, number}
	if m := driverMethods[driver][id]; m != nil {
		return m
	}
	if m := newestMethods[id]; m != nil {
		return m
	}
	return methods[id]
}
