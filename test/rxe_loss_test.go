//go:build vm

package test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeLoss loses packets, and has others overtake them. RC carries messages of
// many sizes, none lost, changed or out of order, and executes atomics once; of UC
// and UD what arrives is whole, and arrives once. UC and UD work on when the wire
// is good again.
func TestRxeLoss(t *testing.T) {
	near, far := rxeWire(t)
	for _, percent := range fewElsewhere([]int{10, 1}, 1) {
		t.Run(fmt.Sprintf("%d%%", percent), func(t *testing.T) {
			l := &lossy{a: near, b: far, percent: percent}
			l.random = must(near.pd.AllocMR(randomSize, verbs.AccessLocalWrite, nil))(t)
			closeLater(t, l.random)
			fill(l.random.Bytes())
			t.Run("RC", func(t *testing.T) {
				l.reliable(t, stream{n: 3000, window: 32, sizes: packetSizes, timeout: 11, deaf: true})
			})
			t.Run("RC, long", func(t *testing.T) {
				l.reliable(t, stream{n: 500 / percent, window: 32, sizes: messageSizes, timeout: 16})
			})
			t.Run("UC", func(t *testing.T) { l.unreliable(t, verbs.QPTypeUC, 500, messageSizes) })
			t.Run("UD", func(t *testing.T) { l.unreliable(t, verbs.QPTypeUD, 1500, packetSizes) })
			if percent == 10 { // at 1 % so few packets could be lucky
				t.Run("RDMA", func(t *testing.T) { l.remote(t, 100) })
			}
		})
	}
}

var (
	packetSizes  = []int{1, 7, 64, 500, 1023, 1024} // each one packet
	messageSizes = []int{1, 1024, 1025, 2048, 3000, 4096, 9000, 16384}
)

// stream is what RC carries. The sender is deaf where acknowledgements are lost
// too. For long messages they are not, and the timeout is long: rxe (6.12's and
// others) loses its place when the acknowledgement of a message comes while it is in
// the middle of sending it again; at the next retry the peer refuses what it sends,
// or it sends nothing for ever, as perftest's ib_send_bw finds out too. What is one
// packet has no middle.
type stream struct {
	n, window int // messages; so many under way at a time
	sizes     []int
	timeout   uint8
	deaf      bool
}

const randomSize = 64 << 10

func fill(b []byte) { rand.NewChaCha8([32]byte{85}).Read(b) }

// lossy is two devices with a bad wire between them.
type lossy struct {
	a, b    *rxeDevice
	percent int
	random  *uverbs.MR // the messages' bytes
}

// heal ends what lose began, and has the device have lost packets.
func (l *lossy) heal(t *testing.T, dev string) {
	t.Helper()
	n := drops(t, dev)
	if t.Logf("%s lost %d packets", dev, n); n == 0 {
		t.Errorf("%s lost nothing", dev)
	}
	lose(t, dev, 0)
}

// place is where in random the message with this number is.
func (l *lossy) place(i int, sizes []int) (offset, size int) {
	size = sizes[i%len(sizes)]
	return i * 61 % (randomSize - size), size
}

func (l *lossy) content(i int, sizes []int) []byte {
	offset, size := l.place(i, sizes)
	return l.random.Bytes()[offset:][:size]
}

func (l *lossy) message(e *rxeEnd, i int, sizes []int) verbs.SendWR {
	offset, size := l.place(i, sizes)
	return e.to(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(i), Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{l.random.SGE(offset, size)}})
}

// pair connects two ends. The timeout is what a lost packet costs an RC QP when
// no other one follows: 11 is 8 ms, 14 is 67 ms. To rxe 7 retries are without end,
// so none of them fails by bad luck.
func (l *lossy) pair(t *testing.T, typ verbs.QPType, timeout uint8, s rxeSetup) (*rxeEnd, *rxeEnd) {
	t.Helper()
	a, b := l.a.end(t, typ, s), l.b.end(t, typ, s)
	for _, e := range []*rxeEnd{a, b} {
		e.toInit()
	}
	a.toRTR(b)
	b.toRTR(a)
	for _, e := range []*rxeEnd{a, b} {
		attr := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, Timeout: timeout, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 4}
		mask := verbs.QPAttrSQPSN
		if typ == verbs.QPTypeRC {
			mask |= verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
		}
		e.modify(attr, mask)
	}
	return a, b
}

func (l *lossy) reliable(t *testing.T, s stream) {
	slot, depth := slices.Max(s.sizes), 2*s.window
	a, b := l.pair(t, verbs.QPTypeRC, s.timeout, rxeSetup{size: depth * slot,
		cap: verbs.QPCap{MaxSendWR: uint32(s.window), MaxRecvWR: uint32(depth)}})
	lose(t, "gvnear", l.percent)
	lose(t, "gvaway", 0)
	if s.deaf {
		lose(t, "gvaway", l.percent)
	}
	begin, retries := time.Now(), counter(t, "gvrxen", "completer_retry_err")
	for i := range depth {
		b.postRecv(uint64(i), i*slot, slot)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // seconds, on a quiet host
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- l.stream(ctx, a, s) }()
	if err := l.receive(ctx, b, s, slot); err != nil {
		cancel()
		t.Fatal(err, <-sent)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if retries = counter(t, "gvrxen", "completer_retry_err") - retries; retries == 0 {
		t.Error("nothing was sent again")
	}
	t.Logf("%d messages in %v, sent again %d times", s.n, time.Since(begin), retries)
	l.heal(t, "gvnear")
	if s.deaf {
		l.heal(t, "gvaway")
	}
}

// receive has all messages arrive as they were sent, in order.
func (l *lossy) receive(ctx context.Context, e *rxeEnd, s stream, slot int) error {
	depth := 2 * s.window
	wcs := make([]verbs.WC, s.window)
	for i := 0; i < s.n; {
		got, err := e.recvCQ.Wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		for _, wc := range wcs[:got] {
			want, at := l.content(i, s.sizes), i%depth
			if wc.Status != verbs.StatusSuccess || wc.Imm != uint32(i) || wc.WRID != uint64(at) || int(wc.ByteLen) != len(want) {
				return fmt.Errorf("message %d of %d bytes: %+v", i, len(want), wc)
			}
			if !bytes.Equal(e.mr.Bytes()[at*slot:][:len(want)], want) {
				return fmt.Errorf("message %d of %d bytes: not what was sent", i, len(want))
			}
			if _, err := e.qp.PostRecv([]verbs.RecvWR{{WRID: wc.WRID, SGL: []verbs.SGE{e.mr.SGE(at*slot, slot)}}}); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// stream sends the messages, and has all complete in order.
func (l *lossy) stream(ctx context.Context, e *rxeEnd, s stream) error {
	wcs := make([]verbs.WC, s.window)
	for posted, done := 0, 0; done < s.n; {
		for ; posted < s.n && posted-done < s.window; posted++ {
			if _, err := e.qp.PostSend([]verbs.SendWR{l.message(e, posted, s.sizes)}); err != nil {
				return fmt.Errorf("send %d: %w", posted, err)
			}
		}
		got, err := e.sendCQ.Wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("send %d: %w", done, err)
		}
		for _, wc := range wcs[:got] {
			if wc.Status != verbs.StatusSuccess || wc.WRID != uint64(done) {
				return fmt.Errorf("send %d: %+v", done, wc)
			}
			done++
		}
	}
	return nil
}

// remote reads and counts in the peer's memory. A retransmission must not count
// again.
func (l *lossy) remote(t *testing.T, n int) {
	a, b := l.pair(t, verbs.QPTypeRC, 11, rxeSetup{})
	lose(t, "gvnear", l.percent)
	lose(t, "gvaway", l.percent)
	const size = 5000
	fill(b.mr.Bytes()[8:])
	for i := range n {
		offset := 8 + i*61%(memorySize-size-8)
		clear(a.mr.Bytes()[8:][:size])
		a.post(a.to(verbs.SendWR{WRID: 1, Opcode: verbs.OpFetchAdd, CompareAdd: 1, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{a.mr.SGE(0, 8)}}))
		read := a.to(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{a.mr.SGE(8, size)}})
		read.RemoteAddr += uint64(offset)
		a.post(read)
		a.sent("1 FETCH_ADD success")
		a.sent("2 RDMA_READ success")
		if old := binary.NativeEndian.Uint64(a.mr.Bytes()); old != uint64(i) {
			t.Fatalf("add %d: it was %d", i, old)
		}
		if !bytes.Equal(a.mr.Bytes()[8:][:size], b.mr.Bytes()[offset:][:size]) {
			t.Fatalf("read %d: not what is there", i)
		}
	}
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()); got != uint64(n) {
		t.Errorf("added %d times, want %d", got, n)
	}
	l.heal(t, "gvnear")
	l.heal(t, "gvaway")
}
