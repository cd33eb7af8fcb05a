package msg

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
)

// Rights say what a peer may do with a region. The values combine with |.
type Rights uint8

const (
	MayRead Rights = 1 << iota
	MayWrite
	MayAtomic
)

func (r Rights) String() string {
	var names []string
	for i, name := range []string{"read", "write", "atomic"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := r &^ (MayRead | MayWrite | MayAtomic); rest != 0 || r == 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(rest)))
	}
	return strings.Join(names, "|")
}

// RemoteRegion describes a region of a peer's, as [Region.Remote] does there. Each
// operation is checked against its length and rights before the device sees it: what a
// device refuses ends the connection.
type RemoteRegion struct {
	Addr   uint64
	Length uint64
	RKey   uint32
	Rights Rights
}

const remoteSize = 24

// MarshalBinary gives 24 bytes, which docs/messages.md describes.
func (r RemoteRegion) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary is MarshalBinary behind b.
func (r RemoteRegion) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, r.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.Length)
	b = binary.LittleEndian.AppendUint32(b, r.RKey)
	return append(b, version, byte(r.Rights), 0, 0), nil
}

// UnmarshalBinary reads what MarshalBinary gave.
func (r *RemoteRegion) UnmarshalBinary(b []byte) error {
	if len(b) != remoteSize || b[20] != version || b[22] != 0 || b[23] != 0 {
		return &Error{"read the description of a region", fmt.Errorf("%d bytes of another version: %w", len(b), syscall.EINVAL)}
	}
	got := RemoteRegion{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:]), Rights(b[21])}
	if got.Addr+got.Length < got.Addr || got.Rights&^(MayRead|MayWrite|MayAtomic) != 0 {
		return &Error{"read the description of a region", fmt.Errorf("%+v: %w", got, syscall.EINVAL)}
	}
	*r = got
	return nil
}

// Slice is n bytes of the region from off on.
func (r RemoteRegion) Slice(off, n uint64) (RemoteRegion, error) {
	if err := r.check(off, n, 0); err != nil {
		return RemoteRegion{}, failed("slice", err)
	}
	r.Addr, r.Length = r.Addr+off, n
	return r, nil
}

func (r RemoteRegion) check(off, n uint64, right Rights) error {
	if off > r.Length || n > r.Length-off {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrOutOfBounds, n, off, r.Length)
	}
	if r.Rights&right != right {
		return fmt.Errorf("%w: %v of a region with rights %v", ErrOutOfBounds, right, r.Rights)
	}
	return nil
}
