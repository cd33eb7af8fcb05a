package driver

// DeviceAttr is what a device can do. Counts are limits of one device.
//
// C: struct ibv_device_attr_ex
type DeviceAttr struct {
	FWVer                         uint64
	NodeGUID, SysImageGUID        GUID
	MaxMRSize                     uint64 // bytes
	PageSizeCap                   uint64 // a bit a page size
	VendorID, VendorPartID, HWVer uint32
	CapFlags                      DeviceCap
	MaxQP, MaxQPWR                uint32
	MaxSGE, MaxSGERead            uint32
	MaxCQ, MaxCQE                 uint32
	MaxMR, MaxPD, MaxMW, MaxAH    uint32
	MaxQPRDAtom, MaxResRDAtom     uint32 // reads and atomics in flight, as responder
	MaxQPInitRDAtom               uint32 // and as initiator
	AtomicCap                     AtomicCap
	MaxMcastGrp, MaxMcastQPAttach uint32
	MaxTotalMcastQPAttach         uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE   uint32
	MaxPKeys                      uint16
	LocalCAAckDelay               uint8
	PhysPortCnt                   uint8
	TimestampMask, HCACoreClock   uint64 // of completion timestamps; the clock in kHz
	MaxDMSize                     uint64 // bytes of device memory
	ODP                           ODPCaps
	CQModerationMaxCount          uint16
	CQModerationMaxPeriod         uint16 // µs
	RSS                           RSSCaps
	MaxWQTypeRQ                   uint32 // receive queues that belong to no QP
	RawPacketCaps                 uint32 // a set of IB_UVERBS_RAW_PACKET_CAP_…
	TagMatching                   TagMatchingCaps
}

// RSSCaps are limits of spreading packets over receive queues that belong to no QP.
//
// C: struct ibv_rss_caps, as far as the kernel tells it for all drivers
type RSSCaps struct {
	SupportedQPTypes        uint32 // a bit a QP type
	MaxIndirectionTables    uint32
	MaxIndirectionTableSize uint32 // entries of one
}

// TagMatchingCaps are limits of SRQs that match tags.
//
// C: struct ibv_tm_caps
type TagMatchingCaps struct {
	MaxRndvHdrSize uint32 // bytes of a rendezvous request
	MaxTags        uint32 // 0: there is no tag matching
	Flags          uint32
	MaxOps, MaxSGE uint32
}
