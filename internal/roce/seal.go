package roce

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"net/netip"
	"slices"
	"time"
)

// A seal follows the ICRC of a packet. It is a number of 8 bytes, the time in nanoseconds since 1970, greater than that of any
// earlier packet of the sender, and 16 bytes of an HMAC with SHA-256 over addresses, port, packet and number. No other
// state is shared, so either end may start anew at any time.
const (
	SealSize   = numberSize + macSize
	numberSize = 8
	macSize    = 16
)

// ClockSkew is how much the number of a seal may differ from the receiver's time. Within this time after the start of a receiver,
// it takes a packet again that its predecessor at the same address has received.
const ClockSkew = 10 * time.Second

const (
	// windowSize is how many numbers of a source a receiver remembers at least. A packet that arrives behind so many later ones may
	// be dropped.
	windowSize = 512
	// mostSources is how many sources a receiver remembers. Sources that have been silent for ClockSkew make room.
	mostSources = 256
)

// Reasons for which Open refuses a packet.
var (
	ErrSeal     = errors.New("it has no seal of this key")
	ErrClock    = errors.New("its seal is more than 10 s older or newer than this machine's clock")
	ErrRepeated = errors.New("it, or hundreds of later ones, arrived before")
	ErrSources  = errors.New("more than 256 sources have sent within 10 s")
)

// seals computes the HMAC of seals.
type seals struct {
	hash  hash.Hash
	space []byte
}

func newSeals(key []byte) seals { return seals{hash: hmac.New(sha256.New, key)} }

// mac returns the HMAC of a packet with its number. It is valid until the next call.
func (s *seals) mac(r Route, numbered []byte) []byte {
	src, dst := r.Src.As16(), r.Dst.As16()
	b := append(s.space[:0], "rdmalink wire 1\x00"...)
	b = append(append(b, src[:]...), dst[:]...)
	b = binary.BigEndian.AppendUint16(b, r.SrcPort)
	s.hash.Reset()
	s.hash.Write(b)
	s.hash.Write(numbered)
	s.space = s.hash.Sum(b[:0])
	return s.space[:macSize]
}

// Sealer seals packets. It must not be used concurrently.
type Sealer struct {
	seals
	last uint64
}

// NewSealer returns a Sealer for a key.
func NewSealer(key []byte) *Sealer { return &Sealer{seals: newSeals(key)} }

// Seal appends a seal to a packet, which ends with its ICRC.
func (s *Sealer) Seal(r Route, packet []byte, now time.Time) []byte {
	s.last = max(s.last+1, uint64(now.UnixNano()))
	b := binary.BigEndian.AppendUint64(packet, s.last)
	return append(b, s.mac(r, b)...)
}

// Opener checks the seals of packets. It must not be used concurrently.
type Opener struct {
	seals
	sources map[netip.Addr]*numbers
}

// NewOpener returns an Opener for a key.
func NewOpener(key []byte) *Opener {
	return &Opener{seals: newSeals(key), sources: make(map[netip.Addr]*numbers)}
}

// Open returns a packet without its seal. Each packet is returned once.
func (o *Opener) Open(r Route, packet []byte, now time.Time) ([]byte, error) {
	n := len(packet) - SealSize
	if n < 0 {
		return nil, ErrSeal
	}
	numbered, got := packet[:n+numberSize], packet[n+numberSize:]
	if !hmac.Equal(got, o.mac(r, numbered)) {
		return nil, ErrSeal
	}
	number := binary.BigEndian.Uint64(numbered[n:])
	least, most := uint64(now.Add(-ClockSkew).UnixNano()), uint64(now.Add(ClockSkew).UnixNano())
	if number < least || number > most {
		return nil, ErrClock
	}
	source := o.sources[r.Src]
	if source == nil {
		if len(o.sources) == mostSources {
			for a, s := range o.sources {
				if s.newest() < least { // all its sequence numbers are too old to be accepted
					delete(o.sources, a)
				}
			}
		}
		if len(o.sources) == mostSources {
			return nil, ErrSources
		}
		source = new(numbers)
		o.sources[r.Src] = source
	}
	if !source.add(number) {
		return nil, ErrRepeated
	}
	return packet[:n], nil
}

// numbers are those of the newest packets of a source.
type numbers struct {
	floor uint64   // up to it none is new
	seen  []uint64 // above it, in order
}

// add adds a number. It reports whether that is new.
func (s *numbers) add(n uint64) bool {
	i, found := slices.BinarySearch(s.seen, n)
	if found || n <= s.floor {
		return false
	}
	s.seen = slices.Insert(s.seen, i, n)
	if len(s.seen) == 2*windowSize {
		s.floor = s.seen[windowSize-1]
		s.seen = slices.Delete(s.seen, 0, windowSize)
	}
	return true
}

// newest returns the greatest number.
func (s *numbers) newest() uint64 { return s.seen[len(s.seen)-1] }
