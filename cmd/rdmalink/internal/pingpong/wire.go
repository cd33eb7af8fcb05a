package pingpong

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/verbs"
)

// addr is the address of a QP, as the ends exchange it. On the wire it is text of
// fixed length, followed by a NUL.
//
// C: struct pingpong_dest
type addr struct {
	lid uint16
	qpn uint32 // 24 bits, 0 if there is no QP
	psn uint32 // 24 bits
	gid verbs.GID
}

const addrSize = len("0000:000000:000000:00000000000000000000000000000000") + 1

// done is how the client says that it is ready.
const done = "done\x00"

func (a addr) append(b []byte) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", a.lid, a.qpn, a.psn, a.gid[:])
}

var errNotPingpong = errors.New("not a message of a pingpong program")

func parseAddr(b []byte) (a addr, err error) {
	bad := func() (addr, error) {
		return addr{}, fmt.Errorf("%.60q: %w", b, errNotPingpong)
	}
	text, nul := bytes.CutSuffix(b, []byte{0})
	fields := bytes.Split(text, []byte{':'})
	if !nul || len(b) != addrSize || len(fields) != 4 || len(fields[3]) != 2*len(a.gid) {
		return bad()
	}
	var numbers [3]uint32
	for i, digits := range []int{4, 6, 6} {
		n, err := strconv.ParseUint(string(fields[i]), 16, 4*digits)
		if err != nil || len(fields[i]) != digits {
			return bad()
		}
		numbers[i] = uint32(n)
	}
	if _, err := hex.Decode(a.gid[:], fields[3]); err != nil {
		return bad()
	}
	a.lid, a.qpn, a.psn = uint16(numbers[0]), numbers[1], numbers[2]
	return a, nil
}
