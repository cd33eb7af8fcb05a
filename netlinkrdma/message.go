package netlinkrdma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Constants of netlink. Package unix has them on linux only, and messages are built and
// parsed everywhere, for tests.
const (
	messageHeader = 16 // nlmsg_len u32, nlmsg_type u16, nlmsg_flags u16, nlmsg_seq u32, nlmsg_pid u32

	messageError = 2 // NLMSG_ERROR, also an acknowledgement
	messageDone  = 3 // NLMSG_DONE ends a dump
	firstMessage = 16

	flagRequest     = 0x1   // NLM_F_REQUEST
	flagAck         = 0x4   // NLM_F_ACK
	flagInterrupted = 0x10  // NLM_F_DUMP_INTR
	flagCapped      = 0x100 // NLM_F_CAPPED: an error without the request's payload
	flagExtended    = 0x200 // NLM_F_ACK_TLVS
	flagDump        = 0x300 // NLM_F_DUMP

	extackText = 1 // NLMSGERR_ATTR_MSG
)

// answer is the state of the answer to one request.
type answer struct {
	seq         uint32
	done        bool // an acknowledgement or the end of the dump has arrived
	interrupted bool // the kernel's list changed during the dump
}

// read parses the messages of one datagram and calls f with the payload of each reply until
// f returns false. Messages of other requests are skipped.
func (a *answer) read(datagram []byte, f func(reply []byte) bool) error {
	for len(datagram) > 0 && !a.done {
		m, rest, err := nextMessage(datagram)
		if err != nil {
			return err
		}
		if binary.NativeEndian.Uint32(m[8:]) == a.seq {
			if err := a.message(m, f); err != nil {
				return err
			}
		}
		datagram = rest
	}
	return nil
}

// nextMessage returns the first message of a datagram and the rest.
func nextMessage(datagram []byte) (m, rest []byte, err error) {
	if len(datagram) < messageHeader {
		return nil, nil, fmt.Errorf("%w: %d bytes where a message should start", ErrMalformed, len(datagram))
	}
	length := uint64(binary.NativeEndian.Uint32(datagram))
	if length < messageHeader || length > uint64(len(datagram)) {
		return nil, nil, fmt.Errorf("%w: a message has invalid length %d, %d bytes left", ErrMalformed, length, len(datagram))
	}
	return datagram[:length], datagram[min(int(length+3)&^3, len(datagram)):], nil
}

// nextNotification returns the attributes of the first notification in a datagram, or nil
// if there is none, and the rest of the datagram. Other messages are skipped. The rest of
// a malformed datagram is nil.
func nextNotification(datagram []byte) (body, rest []byte, err error) {
	for len(datagram) > 0 {
		m, rest, err := nextMessage(datagram)
		if err != nil {
			return nil, nil, err
		}
		if binary.NativeEndian.Uint16(m[4:]) == nldevType|abi.RDMA_NLDEV_CMD_MONITOR {
			return m[messageHeader:], rest, nil
		}
		datagram = rest
	}
	return nil, nil, nil
}

func (a *answer) message(m []byte, f func(reply []byte) bool) error {
	flags := binary.NativeEndian.Uint16(m[6:])
	a.interrupted = a.interrupted || flags&flagInterrupted != 0
	body := m[messageHeader:]
	switch typ := binary.NativeEndian.Uint16(m[4:]); {
	case typ == messageError:
		a.done = true
		return a.verdict(body, flags, errorEcho(body, flags))
	case typ == messageDone:
		a.done = true
		if len(body) == 0 {
			return nil
		}
		return a.verdict(body, flags, 0)
	case typ >= firstMessage && !f(body):
		a.done, a.interrupted = true, false
	}
	return nil
}

// errorEcho returns how many bytes of the request an error message repeats between the
// errno and the attributes that explain it.
func errorEcho(body []byte, flags uint16) uint64 {
	if flags&flagCapped != 0 || len(body) < 8 {
		return messageHeader
	}
	return (uint64(binary.NativeEndian.Uint32(body[4:])) + 3) &^ 3
}

// verdict parses the errno that ends an answer, and the text that explains it.
func (a *answer) verdict(body []byte, flags uint16, echo uint64) error {
	if len(body) < 4 {
		return fmt.Errorf("%w: %d bytes for an errno", ErrMalformed, len(body))
	}
	code := int32(binary.NativeEndian.Uint32(body))
	if code == 0 {
		return nil
	}
	errno := syscall.Errno(-code)
	if code > 0 { // some subsystems omit the sign
		errno = syscall.Errno(code)
	}
	if flags&flagExtended == 0 || 4+echo > uint64(len(body)) {
		return errno
	}
	for attrs := (attributes{rest: body[4+echo:]}); attrs.next(); {
		if attrs.typ == extackText {
			return fmt.Errorf("%s: %w", attrs.string(), errno)
		}
	}
	return errno
}

// message returns the bytes of a request.
func (r Request) message(seq uint32) []byte {
	size := messageHeader
	for _, a := range r.Attrs {
		size += attrHeader + (len(a.Value)+3)&^3
	}
	flags := uint16(flagRequest | flagAck)
	if r.Dump {
		flags |= flagDump
	}
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	b = binary.NativeEndian.AppendUint16(b, nldevType|r.Op)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel's port
	for _, a := range r.Attrs {
		b = a.append(b)
	}
	return b
}

const (
	attrHeader = 4 // nla_len, nla_type: two u16
	// attrTypeMask removes NLA_F_NESTED and NLA_F_NET_BYTEORDER. The kernel sets them on
	// some attributes only.
	attrTypeMask = 0x3fff
	flagNested   = 0x8000 // NLA_F_NESTED
)

// attributes iterates over the attributes of one reply. After the first error, which is
// in err and names the attribute, next returns false and the getters return zero values.
type attributes struct {
	rest  []byte
	typ   uint16
	value []byte
	err   error
}

// next advances to the next attribute that is not padding, and reports whether there is one.
func (a *attributes) next() bool {
	for a.err == nil && len(a.rest) > 0 {
		if !a.advance() {
			return false
		}
		if a.typ != abi.RDMA_NLDEV_ATTR_PAD {
			return true
		}
	}
	return false
}

func (a *attributes) advance() bool {
	if len(a.rest) < attrHeader {
		a.err = fmt.Errorf("%w: %d bytes where an attribute should start", ErrMalformed, len(a.rest))
		return false
	}
	length := int(binary.NativeEndian.Uint16(a.rest))
	a.typ = binary.NativeEndian.Uint16(a.rest[2:]) & attrTypeMask
	if length < attrHeader || length > len(a.rest) {
		a.err = fmt.Errorf("%w: attribute %s has invalid length %d, %d bytes left", ErrMalformed, attrName(a.typ), length, len(a.rest))
		return false
	}
	a.value = a.rest[attrHeader:length]
	a.rest = a.rest[min((length+3)&^3, len(a.rest)):]
	return true
}

// sized returns the value if it is n bytes long, and sets err otherwise.
func (a *attributes) sized(n int) []byte {
	if a.err == nil && len(a.value) != n {
		a.err = fmt.Errorf("%w: attribute %s has %d bytes, want %d", ErrMalformed, attrName(a.typ), len(a.value), n)
	}
	if a.err != nil {
		return make([]byte, n)
	}
	return a.value
}

func (a *attributes) uint8() uint8   { return a.sized(1)[0] }
func (a *attributes) uint32() uint32 { return binary.NativeEndian.Uint32(a.sized(4)) }
func (a *attributes) uint64() uint64 { return binary.NativeEndian.Uint64(a.sized(8)) }

// string returns the value up to its NUL, or all of it if there is none.
func (a *attributes) string() string {
	s, _, _ := bytes.Cut(a.value, []byte{0})
	return string(s)
}

// nested calls f with the attributes inside this one.
func (a *attributes) nested(f func(in *attributes)) {
	in := attributes{rest: a.value}
	f(&in)
	if a.err == nil && in.err != nil {
		a.err = fmt.Errorf("in %s: %w", attrName(a.typ), in.err)
	}
}

// inside returns the attributes inside this one. The caller passes them to adopt once it has
// read them. Unlike nested, inside and adopt allocate nothing.
func (a *attributes) inside() attributes { return attributes{rest: a.value} }

// adopt sets err to the error of the attributes inside this one, if there is one. It
// reports whether err is nil.
func (a *attributes) adopt(in *attributes) bool {
	if a.err == nil && in.err != nil {
		a.err = fmt.Errorf("in %s: %w", attrName(a.typ), in.err)
	}
	return a.err == nil
}

// require sets err unless ok, which reports that the reply has a mandatory attribute.
func (a *attributes) require(ok bool, typ uint16) {
	if a.err == nil && !ok {
		a.err = fmt.Errorf("%w: no attribute %s", ErrMalformed, attrName(typ))
	}
}

func uint32Value(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
func stringValue(s string) []byte { return append([]byte(s), 0) }

func boolValue(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// nestedAttr returns an attribute that holds others. Requests that change something need
// NLA_F_NESTED.
func nestedAttr(typ uint16, in ...Attr) Attr {
	var value []byte
	for _, a := range in {
		value = a.append(value)
	}
	return Attr{flagNested | typ, value}
}

// append appends the bytes of the attribute to b.
func (a Attr) append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(a.Value)))
	b = binary.NativeEndian.AppendUint16(b, a.Type)
	b = append(b, a.Value...)
	return append(b, make([]byte, -len(a.Value)&3)...)
}

// wordFor returns the word for a value, or kind(27) if there is none.
func wordFor(kind string, words []string, v uint8) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// attrNames has the names of the attributes that this package reads and sends, for errors
// and for GOVERBS_DEBUG.
var attrNames = map[uint16]string{
	abi.RDMA_NLDEV_ATTR_DEV_INDEX:                       "DEV_INDEX",
	abi.RDMA_NLDEV_ATTR_DEV_NAME:                        "DEV_NAME",
	abi.RDMA_NLDEV_ATTR_PORT_INDEX:                      "PORT_INDEX",
	abi.RDMA_NLDEV_ATTR_CAP_FLAGS:                       "CAP_FLAGS",
	abi.RDMA_NLDEV_ATTR_FW_VERSION:                      "FW_VERSION",
	abi.RDMA_NLDEV_ATTR_NODE_GUID:                       "NODE_GUID",
	abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID:                  "SYS_IMAGE_GUID",
	abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX:                   "SUBNET_PREFIX",
	abi.RDMA_NLDEV_ATTR_LID:                             "LID",
	abi.RDMA_NLDEV_ATTR_SM_LID:                          "SM_LID",
	abi.RDMA_NLDEV_ATTR_LMC:                             "LMC",
	abi.RDMA_NLDEV_ATTR_PORT_STATE:                      "PORT_STATE",
	abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:                 "PORT_PHYS_STATE",
	abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:                   "DEV_NODE_TYPE",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY:                     "RES_SUMMARY",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY:               "RES_SUMMARY_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:          "RES_SUMMARY_ENTRY_NAME",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:          "RES_SUMMARY_ENTRY_CURR",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX:           "RES_SUMMARY_ENTRY_MAX",
	abi.RDMA_NLDEV_ATTR_RES_QP:                          "RES_QP",
	abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY:                    "RES_QP_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_LQPN:                        "RES_LQPN",
	abi.RDMA_NLDEV_ATTR_RES_RQPN:                        "RES_RQPN",
	abi.RDMA_NLDEV_ATTR_RES_RQ_PSN:                      "RES_RQ_PSN",
	abi.RDMA_NLDEV_ATTR_RES_SQ_PSN:                      "RES_SQ_PSN",
	abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE:              "RES_PATH_MIG_STATE",
	abi.RDMA_NLDEV_ATTR_RES_TYPE:                        "RES_TYPE",
	abi.RDMA_NLDEV_ATTR_RES_STATE:                       "RES_STATE",
	abi.RDMA_NLDEV_ATTR_RES_SUBTYPE:                     "RES_SUBTYPE",
	abi.RDMA_NLDEV_ATTR_RES_PID:                         "RES_PID",
	abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:                   "RES_KERN_NAME",
	abi.RDMA_NLDEV_ATTR_RES_CM_ID:                       "RES_CM_ID",
	abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY:                 "RES_CM_ID_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_CM_IDN:                      "RES_CM_IDN",
	abi.RDMA_NLDEV_ATTR_RES_PS:                          "RES_PS",
	abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR:                    "RES_SRC_ADDR",
	abi.RDMA_NLDEV_ATTR_RES_DST_ADDR:                    "RES_DST_ADDR",
	abi.RDMA_NLDEV_ATTR_RES_CQ:                          "RES_CQ",
	abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY:                    "RES_CQ_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_CQN:                         "RES_CQN",
	abi.RDMA_NLDEV_ATTR_RES_CQE:                         "RES_CQE",
	abi.RDMA_NLDEV_ATTR_RES_USECNT:                      "RES_USECNT",
	abi.RDMA_NLDEV_ATTR_RES_POLL_CTX:                    "RES_POLL_CTX",
	abi.RDMA_NLDEV_ATTR_DEV_DIM:                         "DEV_DIM",
	abi.RDMA_NLDEV_ATTR_RES_MR:                          "RES_MR",
	abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY:                    "RES_MR_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_MRN:                         "RES_MRN",
	abi.RDMA_NLDEV_ATTR_RES_RKEY:                        "RES_RKEY",
	abi.RDMA_NLDEV_ATTR_RES_LKEY:                        "RES_LKEY",
	abi.RDMA_NLDEV_ATTR_RES_IOVA:                        "RES_IOVA",
	abi.RDMA_NLDEV_ATTR_RES_MRLEN:                       "RES_MRLEN",
	abi.RDMA_NLDEV_ATTR_RES_PD:                          "RES_PD",
	abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY:                    "RES_PD_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_PDN:                         "RES_PDN",
	abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY:              "RES_LOCAL_DMA_LKEY",
	abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY:          "RES_UNSAFE_GLOBAL_RKEY",
	abi.RDMA_NLDEV_ATTR_RES_CTX:                         "RES_CTX",
	abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY:                   "RES_CTX_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_CTXN:                        "RES_CTXN",
	abi.RDMA_NLDEV_ATTR_RES_SRQ:                         "RES_SRQ",
	abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY:                   "RES_SRQ_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_SRQN:                        "RES_SRQN",
	abi.RDMA_NLDEV_ATTR_MIN_RANGE:                       "MIN_RANGE",
	abi.RDMA_NLDEV_ATTR_MAX_RANGE:                       "MAX_RANGE",
	abi.RDMA_NLDEV_ATTR_RES_RAW:                         "RES_RAW",
	abi.RDMA_NLDEV_ATTR_DRIVER:                          "DRIVER",
	abi.RDMA_NLDEV_ATTR_DRIVER_ENTRY:                    "DRIVER_ENTRY",
	abi.RDMA_NLDEV_ATTR_DRIVER_STRING:                   "DRIVER_STRING",
	abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE:               "DRIVER_PRINT_TYPE",
	abi.RDMA_NLDEV_ATTR_DRIVER_S32:                      "DRIVER_S32",
	abi.RDMA_NLDEV_ATTR_DRIVER_U32:                      "DRIVER_U32",
	abi.RDMA_NLDEV_ATTR_DRIVER_S64:                      "DRIVER_S64",
	abi.RDMA_NLDEV_ATTR_DRIVER_U64:                      "DRIVER_U64",
	abi.RDMA_NLDEV_ATTR_NDEV_INDEX:                      "NDEV_INDEX",
	abi.RDMA_NLDEV_ATTR_NDEV_NAME:                       "NDEV_NAME",
	abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:                    "DEV_PROTOCOL",
	abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:                    "CHARDEV_NAME",
	abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:                     "CHARDEV_ABI",
	abi.RDMA_NLDEV_ATTR_CHARDEV:                         "CHARDEV",
	abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:                "UVERBS_DRIVER_ID",
	abi.RDMA_NLDEV_ATTR_DEV_TYPE:                        "DEV_TYPE",
	abi.RDMA_NLDEV_ATTR_PARENT_NAME:                     "PARENT_NAME",
	abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE:                "NAME_ASSIGN_TYPE",
	abi.RDMA_NLDEV_ATTR_STAT_MODE:                       "STAT_MODE",
	abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK:             "STAT_AUTO_MODE_MASK",
	abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED:          "STAT_OPCOUNTER_ENABLED",
	abi.RDMA_NLDEV_ATTR_STAT_COUNTER:                    "STAT_COUNTER",
	abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY:              "STAT_COUNTER_ENTRY",
	abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID:                 "STAT_COUNTER_ID",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:                 "STAT_HWCOUNTERS",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY:            "STAT_HWCOUNTER_ENTRY",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:       "STAT_HWCOUNTER_ENTRY_NAME",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE:      "STAT_HWCOUNTER_ENTRY_VALUE",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX:            "STAT_HWCOUNTER_INDEX",
	abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC:          "STAT_HWCOUNTER_DYNAMIC",
	abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE:                  "SYS_NETNS_MODE",
	abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK:                "SYS_COPY_ON_FORK",
	abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE:        "SYS_PRIVILEGED_QKEY_MODE",
	abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE:                "SYS_MONITOR_MODE",
	abi.RDMA_NLDEV_ATTR_FRMR_POOLS:                      "FRMR_POOLS",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY:                 "FRMR_POOL_ENTRY",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY:                   "FRMR_POOL_KEY",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS:               "FRMR_POOL_KEY_ATS",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS:      "FRMR_POOL_KEY_ACCESS_FLAGS",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY:        "FRMR_POOL_KEY_VENDOR_KEY",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS:    "FRMR_POOL_KEY_NUM_DMA_BLOCKS",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY: "FRMR_POOL_KEY_KERNEL_VENDOR_KEY",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES:         "FRMR_POOL_QUEUE_HANDLES",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE:                "FRMR_POOL_IN_USE",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE:            "FRMR_POOL_MAX_IN_USE",
	abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES:        "FRMR_POOL_PINNED_HANDLES",
	abi.RDMA_NLDEV_ATTR_EVENT_TYPE:                      "EVENT_TYPE",
	abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE:                    "CHARDEV_TYPE",
	abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS:                  "DRIVER_DETAILS",
	abi.RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD:         "FRMR_POOLS_AGING_PERIOD",
	abi.RDMA_NLDEV_ATTR_LINK_TYPE:                       "LINK_TYPE",
	abi.RDMA_NLDEV_ATTR_STAT_RES:                        "STAT_RES",
	abi.RDMA_NLDEV_NET_NS_FD:                            "NET_NS_FD",
}

// attrName returns the name of an attribute, or its number.
func attrName(typ uint16) string {
	if name, ok := attrNames[typ]; ok {
		return name
	}
	return strconv.Itoa(int(typ))
}
