//go:build vm

package test

import (
	"bytes"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// grhSize is what stands in front of a datagram in the receiver's buffer.
const grhSize = 40

// TestRxeSend moves messages of several sizes each way, over several packets
// where the service can.
func TestRxeSend(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		sizes, front := []int{0, 1, 1000, 1024, 5000, 20000}, 0
		if typ == uverbs.QPTypeUD {
			sizes, front = sizes[:4], grhSize
		}
		for i, size := range sizes {
			pattern(a.mr.Bytes()[sendFrom:sendFrom+size], byte(i))
			b.postRecv(uint64(1000+i), 0, front+size)
			a.post(a.send(uint64(i), sendFrom, size))
			a.sent(brief(uverbs.WC{WRID: uint64(i), Opcode: uverbs.WCSend}))
			wc := b.got(brief(uverbs.WC{WRID: uint64(1000 + i), Opcode: uverbs.WCRecv, ByteLen: uint32(front + size)}))
			if wc.QPN != b.qp.Num() || wc.Flags != uverbs.WCGRH {
				t.Errorf("%d bytes: %+v", size, wc)
			}
			if !bytes.Equal(b.mr.Bytes()[front:front+size], a.mr.Bytes()[sendFrom:sendFrom+size]) {
				t.Errorf("%d bytes: not what was sent", size)
			}
			a, b = b, a
		}
	})
}
