package oob

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Endpoint describes an end of a connection to its peer. Its fields are read-only. They come from the peer, and
// are checked: the numbers are in range. Nothing proves that they are the peer's own.
type Endpoint struct {
	Type        verbs.QPType // RC, UC, UD or SRD
	Instance    [16]byte     // of the process: random, so a process that was restarted has another one
	QPN         uint32
	GID         verbs.GID
	GIDType     verbs.GIDType
	LID         uint16 // 0 over RoCE
	MTU         verbs.MTU
	PrivateData []byte // see Config.PrivateData

	nonce    uint64 // of this attempt
	answers  uint64 // the nonce of the offer that this endpoint answers, or 0 in an offer
	psn      uint32 // of the first packet that this end sends
	qkey     uint32 // UD and SRD
	readsIn  uint8  // RC: READs and atomics that this end serves at a time,
	readsOut uint8  // and that it issues
}

// MaxPrivateData is the largest length of Config.PrivateData in bytes.
const MaxPrivateData = 32 << 10

// frame is what the ends send to each other. On the wire it is a header of 8 bytes (the magic number, the version,
// the kind, and the length of the rest) and fields: type, length and value of each. Types and lengths have 16
// bits. All numbers are big-endian. Fields of unknown types are skipped, so later versions may add some.
type frame struct {
	kind     kind
	endpoint Endpoint // of an offer and an answer; answers belongs to a ready, too
	reason   string   // of a refusal
}

type kind uint8

const (
	kindOffer  kind = 1 // the first message: the endpoint of the side that dialled
	kindAnswer kind = 2 // the endpoint of the other side, which is ready to receive
	kindReady  kind = 3 // the side that dialled is ready to receive
	kindRefuse kind = 4 // there will be no connection, for this reason
	kindBye    kind = 5 // the orderly end of a connection
)

func (k kind) String() string {
	if names := [...]string{1: "offer", "answer", "ready", "refusal", "bye"}; k > 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("message of kind %d", uint8(k))
}

const (
	version    = 1
	headerSize = 8
	maxReason  = 256 // bytes
)

// magic begins every message.
var magic = [4]byte{'g', 'v', 'o', 'b'}

// The types of fields.
const (
	fieldType = 1 + iota
	fieldInstance
	fieldNonce
	fieldAnswers
	fieldQPN
	fieldPSN
	fieldQKey
	fieldGID
	fieldGIDType
	fieldLID
	fieldMTU
	fieldReadsIn
	fieldReadsOut
	fieldPrivate
	fieldReason
	endOfFields
)

// bytes returns the frame as it is sent.
func (f *frame) bytes() []byte {
	b := append(make([]byte, 0, 256), magic[:]...)
	b = append(b, version, byte(f.kind), 0, 0)
	for field := uint16(1); field < endOfFields; field++ {
		if !f.kind.has(field, f.endpoint.Type) {
			continue
		}
		start := len(b)
		b = f.appendField(append(b, byte(field>>8), byte(field), 0, 0), field)
		binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start-4))
	}
	binary.BigEndian.PutUint16(b[6:], uint16(len(b)-headerSize))
	return b
}

// has reports whether messages of the kind have a field, for queue pairs of the type.
func (k kind) has(field uint16, t verbs.QPType) bool {
	switch field {
	case fieldReason:
		return k == kindRefuse
	case fieldAnswers:
		return k == kindAnswer || k == kindReady
	case fieldQKey:
		return isAddressed(t) && (k == kindOffer || k == kindAnswer)
	case fieldReadsIn, fieldReadsOut:
		return t == verbs.QPTypeRC && (k == kindOffer || k == kindAnswer)
	}
	return k == kindOffer || k == kindAnswer
}

func (f *frame) appendField(b []byte, field uint16) []byte {
	e := &f.endpoint
	switch field {
	case fieldType:
		return append(b, byte(e.Type))
	case fieldInstance:
		return append(b, e.Instance[:]...)
	case fieldNonce:
		return binary.BigEndian.AppendUint64(b, e.nonce)
	case fieldAnswers:
		return binary.BigEndian.AppendUint64(b, e.answers)
	case fieldQPN:
		return binary.BigEndian.AppendUint32(b, e.QPN)
	case fieldPSN:
		return binary.BigEndian.AppendUint32(b, e.psn)
	case fieldQKey:
		return binary.BigEndian.AppendUint32(b, e.qkey)
	case fieldGID:
		return append(b, e.GID[:]...)
	case fieldGIDType:
		return append(b, byte(e.GIDType))
	case fieldLID:
		return binary.BigEndian.AppendUint16(b, e.LID)
	case fieldMTU:
		return append(b, byte(e.MTU))
	case fieldReadsIn:
		return append(b, e.readsIn)
	case fieldReadsOut:
		return append(b, e.readsOut)
	case fieldPrivate:
		return append(b, e.PrivateData...)
	}
	return append(b, f.reason[:min(len(f.reason), maxReason)]...)
}

// parseHeader parses the first headerSize bytes of a message.
func parseHeader(b []byte) (k kind, length int, err error) {
	if len(b) < headerSize {
		return 0, 0, violation("a message of %d bytes", len(b))
	}
	if [4]byte(b) != magic {
		return 0, 0, fmt.Errorf("%w: its first bytes are %q", ErrVersion, b[:4])
	}
	if b[4] != version {
		return 0, 0, fmt.Errorf("%w: it speaks version %d, this end version %d", ErrVersion, b[4], version)
	}
	if k = kind(b[5]); k < kindOffer || k > kindBye {
		return 0, 0, violation("a %v", k)
	}
	return k, int(binary.BigEndian.Uint16(b[6:])), nil
}

// parse parses a whole message. The result does not use b's memory.
func parse(b []byte) (*frame, error) {
	k, length, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	if len(b) != headerSize+length {
		return nil, violation("%v of %d bytes, which says that it has %d", k, len(b), headerSize+length)
	}
	f := &frame{kind: k}
	var seen [endOfFields]bool
	for b = b[headerSize:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, violation("%v that ends within a field", k)
		}
		field, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if b = b[4:]; n > len(b) {
			return nil, violation("%v that ends within field %d", k, field)
		}
		if field > 0 && field < endOfFields {
			if seen[field] {
				return nil, violation("%v with two fields %d", k, field)
			}
			seen[field] = true
			if err := f.setField(field, b[:n]); err != nil {
				return nil, err
			}
		}
		b = b[n:]
	}
	for field := uint16(1); field < endOfFields; field++ {
		if f.kind.has(field, f.endpoint.Type) && !seen[field] && field != fieldPrivate {
			return nil, violation("%v without field %d", k, field)
		}
	}
	if k == kindOffer || k == kindAnswer {
		return f, f.endpoint.check()
	}
	return f, nil
}

func (f *frame) setField(field uint16, b []byte) error {
	e := &f.endpoint
	var size int
	switch field {
	case fieldType, fieldGIDType, fieldMTU, fieldReadsIn, fieldReadsOut:
		size = 1
	case fieldLID:
		size = 2
	case fieldQPN, fieldPSN, fieldQKey:
		size = 4
	case fieldNonce, fieldAnswers:
		size = 8
	case fieldInstance, fieldGID:
		size = 16
	case fieldPrivate:
		size = min(len(b), MaxPrivateData)
	case fieldReason:
		size = min(len(b), maxReason)
	}
	if len(b) != size {
		return violation("%v with %d bytes in field %d, want %d", f.kind, len(b), field, size)
	}
	switch field {
	case fieldType:
		e.Type = verbs.QPType(b[0])
	case fieldInstance:
		e.Instance = [16]byte(b)
	case fieldNonce:
		e.nonce = binary.BigEndian.Uint64(b)
	case fieldAnswers:
		e.answers = binary.BigEndian.Uint64(b)
	case fieldQPN:
		e.QPN = binary.BigEndian.Uint32(b)
	case fieldPSN:
		e.psn = binary.BigEndian.Uint32(b)
	case fieldQKey:
		e.qkey = binary.BigEndian.Uint32(b)
	case fieldGID:
		e.GID = verbs.GID(b)
	case fieldGIDType:
		e.GIDType = verbs.GIDType(b[0])
	case fieldLID:
		e.LID = binary.BigEndian.Uint16(b)
	case fieldMTU:
		e.MTU = verbs.MTU(b[0])
	case fieldReadsIn:
		e.readsIn = b[0]
	case fieldReadsOut:
		e.readsOut = b[0]
	case fieldPrivate:
		e.PrivateData = append([]byte(nil), b...)
	case fieldReason:
		f.reason = string(b)
	}
	return nil
}

const (
	max24Bits    = 1<<24 - 1
	max16Bits    = 1<<16 - 1 // EFA's numbers of queue pairs
	multicastQPN = max24Bits // stands for the queue pairs of a multicast group
	maxLID       = 0xbfff    // those above stand for multicast groups
	topBit       = 1 << 31   // a Q_Key with it stands for another one
)

// canConnect reports whether a Conn can be of the type.
func canConnect(t verbs.QPType) bool {
	return t == verbs.QPTypeRC || t == verbs.QPTypeUC || isAddressed(t)
}

// isAddressed reports whether each work request names the peer. The queue pair itself is not connected to it.
func isAddressed(t verbs.QPType) bool { return t == verbs.QPTypeUD || t == verbs.QPTypeSRD }

// check checks all that does not depend on the other end.
func (e *Endpoint) check() error {
	switch {
	case !canConnect(e.Type):
		return violation("queue pair of type %v", e.Type)
	case e.nonce == 0:
		return violation("nonce 0")
	case e.QPN == 0 || e.QPN >= multicastQPN || e.Type == verbs.QPTypeSRD && e.QPN > max16Bits:
		return violation("queue pair number %#x", e.QPN)
	case e.psn > max24Bits:
		return violation("packet sequence number %#x", e.psn)
	case isAddressed(e.Type) && e.qkey&topBit != 0:
		return violation("Q_Key %#x", e.qkey)
	case e.MTU.Bytes() == 0:
		return violation("MTU of code %d", uint8(e.MTU))
	case e.GIDType > verbs.GIDTypeRoCEv2:
		return violation("GID of type %d", uint32(e.GIDType))
	case e.LID > maxLID:
		return violation("LID %#x", e.LID)
	case e.GID.IsMulticast(), e.GID == verbs.GID{} && (e.GIDType != verbs.GIDTypeIB || e.LID == 0):
		return violation("GID %v", e.GID)
	case e.Type == verbs.QPTypeRC && (e.readsIn == 0 || e.readsOut == 0):
		return violation("no READs")
	}
	return nil
}

// fits compares the two ends.
func (e *Endpoint) fits(peer *Endpoint) error {
	switch {
	case e.Type != peer.Type:
		return fmt.Errorf("%w: a queue pair of type %v here, of type %v at the peer", ErrMismatch, e.Type, peer.Type)
	case e.GIDType != peer.GIDType:
		return fmt.Errorf("%w: the GID %v here is of type %v, the peer's %v of type %v: see Config.GID", ErrMismatch, e.GID, e.GIDType, peer.GID, peer.GIDType)
	case e.GIDType != verbs.GIDTypeIB && e.GID.Addr().Is4() != peer.GID.Addr().Is4():
		return fmt.Errorf("%w: the GID %v here and the peer's %v are of different address families: see Config.GID", ErrMismatch, e.GID, peer.GID)
	}
	return nil
}

// instance is the process's.
var instance = func() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}()

// random returns a random number below 1<<bits, which is not 0.
func random(bits int) uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.BigEndian.Uint64(b[:]) >> (64 - bits); n != 0 {
			return n
		}
	}
}
