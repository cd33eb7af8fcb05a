package perftest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/verbs"
)

// Version is the version that perftest 4.5 of Debian 12 sends.
const Version = "6.06"

// oldest is the first version whose messages are these.
const oldest = 5.70

const versionSize = 16

// System describes an end. The ends exchange it first.
type System struct {
	// Version is a number in text, at most 15 bytes; "" means Version.
	Version string
	// CycleBuffer is the number of bytes after which a bandwidth test begins
	// again at the front of the peer's buffer: the page size.
	// A buffer must be as large, even for smaller messages.
	CycleBuffer int
	// CacheLine is the distance of two messages in a buffer, in bytes.
	CacheLine int
	// MTU is the port's active one, or less if asked for (-m).
	MTU verbs.MTU
}

// agree returns the System that both ends use: the larger buffer and cache line,
// the smaller MTU, and the peer's Version.
func (own System) agree(peer System) System {
	agreed := System{
		Version:     peer.Version,
		CycleBuffer: max(own.CycleBuffer, peer.CycleBuffer),
		CacheLine:   max(own.CacheLine, peer.CacheLine),
		MTU:         own.MTU,
	}
	if peer.MTU.Bytes() != 0 {
		agreed.MTU = min(own.MTU, peer.MTU)
	}
	return agreed
}

func appendVersion(b []byte, version string) []byte {
	var field [versionSize]byte
	copy(field[:versionSize-1], cmp.Or(version, Version))
	return append(b, field[:]...)
}

func parseVersion(b []byte) (string, error) {
	text, _, nul := bytes.Cut(b, []byte{0})
	number, err := strconv.ParseFloat(string(text), 64)
	switch {
	case len(b) != versionSize || !nul || err != nil || number < 0 || number > 1e6:
		return "", fmt.Errorf("got %.60q, want a version number in %d bytes", b, versionSize)
	case number < oldest:
		return "", fmt.Errorf("the peer runs perftest %s; the oldest supported version is %.2f", text, oldest)
	}
	return string(text), nil
}

// maxStep bounds the two sizes: they become those of buffers.
const maxStep = 1 << 24

func appendStep(b []byte, bytes int) []byte { return binary.BigEndian.AppendUint32(b, uint32(bytes)) }

func parseStep(b []byte) (int, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("got %.60q, want 4 bytes", b)
	}
	n := binary.BigEndian.Uint32(b)
	if n == 0 || n > maxStep {
		return 0, fmt.Errorf("got %d bytes, want 1 to %d", n, maxStep)
	}
	return int(n), nil
}

// appendMTU appends a digit and a NUL.
func appendMTU(b []byte, m verbs.MTU) []byte { return append(b, '0'+byte(m), 0) }

func parseMTU(b []byte) (verbs.MTU, error) {
	if len(b) != 2 || b[0] < '1' || b[0] > '5' || b[1] != 0 {
		return 0, fmt.Errorf(`got %.60q, want an MTU's code, "1\x00" to "5\x00"`, b)
	}
	return verbs.MTU(b[0] - '0'), nil
}
