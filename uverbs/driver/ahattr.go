package driver

// AHAttr is an address: the way to a port. On RoCE it has a Global part; DLID,
// SrcPathBits and StaticRate are InfiniBand's.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID    // whom to send to
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint32 // the own GID, see Device.ChooseGID; the kernel takes 255 at most
	HopLimit     uint8  // of multicast, where 0 gets nowhere; of unicast RoCE the kernel's route has it
	TrafficClass uint8  // IP's DSCP and ECN bits
	Global       bool   // the fields above are in use
	DLID         uint16
	SL           uint8 // 4 bits
	SrcPathBits  uint8
	StaticRate   uint8  // 0 means the port's
	Port         uint32 // the own one, from 1; the kernel takes 255 at most
}
