package rdmatest

// Call is a call to a device that can be made to fail.
type Call string

// The calls.
const (
	AnyCall           Call = ""
	CallOpen          Call = "GET_CONTEXT"
	CallAsyncEvents   Call = "ASYNC_EVENT_ALLOC"
	CallQueryDevice   Call = "QUERY_DEVICE"
	CallQueryPort     Call = "QUERY_PORT"
	CallQueryGIDs     Call = "QUERY_GID_TABLE"
	CallAllocPD       Call = "ALLOC_PD"
	CallDeallocPD     Call = "PD_DESTROY"
	CallRegMR         Call = "REG_MR"
	CallReregMR       Call = "REREG_MR"
	CallDeregMR       Call = "MR_DESTROY"
	CallAllocMW       Call = "ALLOC_MW"
	CallDeallocMW     Call = "MW_DESTROY"
	CallCreateChannel Call = "CREATE_COMP_CHANNEL"
	CallCreateCQ      Call = "CQ_CREATE"
	CallResizeCQ      Call = "RESIZE_CQ"
	CallDestroyCQ     Call = "CQ_DESTROY"
	CallCreateQP      Call = "QP_CREATE"
	CallModifyQP      Call = "MODIFY_QP"
	CallQueryQP       Call = "QUERY_QP"
	CallDestroyQP     Call = "QP_DESTROY"
	CallCreateSRQ     Call = "SRQ_CREATE"
	CallModifySRQ     Call = "MODIFY_SRQ"
	CallQuerySRQ      Call = "QUERY_SRQ"
	CallDestroySRQ    Call = "SRQ_DESTROY"
	CallCreateAH      Call = "CREATE_AH"
	CallDestroyAH     Call = "AH_DESTROY"
	CallAttachMcast   Call = "ATTACH_MCAST"
	CallDetachMcast   Call = "DETACH_MCAST"
	CallPostSend      Call = "POST_SEND"     // the doorbell, where it is a call
	CallReqNotifyCQ   Call = "REQ_NOTIFY_CQ" // arming, where it is a call
	CallMap           Call = "MMAP"          // mapping a queue
	CallAlloc         Call = "ALLOC"         // memory for a queue that the program makes
	CallEvents        Call = "EVENTS"        // the descriptor of a channel
)
