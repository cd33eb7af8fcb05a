package driver

// QPAttr is the state of a QP, as far as a mask says. Times have the encoding of
// the InfiniBand specification, so that a 0 is not always the least.
//
// C: struct ibv_qp_attr
type QPAttr struct {
	State, CurState QPState
	PathMTU         MTU
	QKey            uint32 // UD; with the top bit set only for who has CAP_NET_RAW
	RQPSN, SQPSN    uint32 // 24 bits: of the first packet that comes, and that goes
	DestQPN         uint32 // 24 bits
	Access          Access // what the peer may do; RC and UC
	AH              AHAttr // the way to the peer; its Port must be Port
	PKeyIndex       uint32 // the kernel takes 65535 at most
	MaxRDAtomic     uint8  // reads and atomics in flight, as initiator
	MaxDestRDAtomic uint8  // and as responder
	MinRNRTimer     uint8  // how long the peer waits for a receive: 1 to 31 are 0.01 to 491.52 ms, 12 is 0.64 ms, 0 is 655.36 ms
	Port            uint32 // from 1; the kernel takes 255 at most
	Timeout         uint8  // of an acknowledgement: 4.096 µs × 2^Timeout, to 31; 0 means never
	RetryCnt        uint8  // after such timeouts, 0 to 7
	RNRRetry        uint8  // after such waits, 0 to 6; 7 means for ever

	// EnSQDAsyncNotify asks for EventSQDrained when the move to SQD is done.
	// Until then SQDraining is set (Query only).
	EnSQDAsyncNotify, SQDraining bool

	// The alternate path (QPAttrAltPath), and what becomes of it.
	AltAH        AHAttr // its Port must be AltPort
	AltPKeyIndex uint32 // limits as above
	AltPort      uint32
	AltTimeout   uint8 // as Timeout
	PathMigState PathMigState

	RateLimit uint32 // kbit/s; 0 means none; Modify only, of raw packet QPs
	Cap       QPCap  // Query only: as the kernel has it, see [QP.Cap]
}

// QPAttrMask says which fields of a QPAttr count.
//
// C: enum ibv_qp_attr_mask
type QPAttrMask uint32

// One bit an attribute.
const (
	QPAttrState           QPAttrMask = 1 << 0
	QPAttrCurState        QPAttrMask = 1 << 1
	QPAttrEnSQDAsync      QPAttrMask = 1 << 2
	QPAttrAccess          QPAttrMask = 1 << 3
	QPAttrPKeyIndex       QPAttrMask = 1 << 4
	QPAttrPort            QPAttrMask = 1 << 5
	QPAttrQKey            QPAttrMask = 1 << 6
	QPAttrAV              QPAttrMask = 1 << 7
	QPAttrPathMTU         QPAttrMask = 1 << 8
	QPAttrTimeout         QPAttrMask = 1 << 9
	QPAttrRetryCnt        QPAttrMask = 1 << 10
	QPAttrRNRRetry        QPAttrMask = 1 << 11
	QPAttrRQPSN           QPAttrMask = 1 << 12
	QPAttrMaxQPRDAtomic   QPAttrMask = 1 << 13
	QPAttrAltPath         QPAttrMask = 1 << 14
	QPAttrMinRNRTimer     QPAttrMask = 1 << 15
	QPAttrSQPSN           QPAttrMask = 1 << 16
	QPAttrMaxDestRDAtomic QPAttrMask = 1 << 17
	QPAttrPathMigState    QPAttrMask = 1 << 18
	QPAttrCap             QPAttrMask = 1 << 19
	QPAttrDestQPN         QPAttrMask = 1 << 20
	QPAttrRateLimit       QPAttrMask = 1 << 25
)

var attrNames = map[int]string{
	0: "State", 1: "CurState", 2: "EnSQDAsync", 3: "Access", 4: "PKeyIndex", 5: "Port", 6: "QKey", 7: "AV", 8: "PathMTU",
	9: "Timeout", 10: "RetryCnt", 11: "RNRRetry", 12: "RQPSN", 13: "MaxQPRDAtomic", 14: "AltPath", 15: "MinRNRTimer",
	16: "SQPSN", 17: "MaxDestRDAtomic", 18: "PathMigState", 19: "Cap", 20: "DestQPN", 25: "RateLimit",
}

// String names the bits.
func (m QPAttrMask) String() string { return bitNames(uint64(m), attrNames) }
