//go:build vm

package rxe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeLoss loses packets, and has others overtake them. RC carries messages of
// many sizes, none lost, changed or out of order, and executes atomics once; messages of UC
// and UD arrive whole and at most once. UC and UD continue when the wire
// is good again.
func TestRxeLoss(t *testing.T) {
	near, far := kit.RxeWire(t)
	for _, percent := range kit.FewElsewhere([]int{10, 1}, 1) {
		t.Run(fmt.Sprintf("%d%%", percent), func(t *testing.T) {
			l := &lossy{a: near, b: far, percent: percent}
			l.random = kit.Must(near.PD.AllocMR(randomSize, verbs.AccessLocalWrite, nil))(t)
			kit.CloseLater(t, l.random)
			fill(l.random.Bytes())
			t.Run("RC", func(t *testing.T) {
				l.reliable(t, stream{n: 1500, window: 32, sizes: packetSizes, timeout: 11, deaf: true})
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
// the middle of retransmitting it. At the next retry the peer refuses its packets,
// or it sends nothing for ever, as perftest's ib_send_bw finds out too. A message of one
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
	a, b    *kit.RxeDevice
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
	kit.Lose(t, dev, 0)
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

func (l *lossy) message(e *kit.RxeEnd, i int, sizes []int) verbs.SendWR {
	offset, size := l.place(i, sizes)
	return e.To(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(i), Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{l.random.SGE(offset, size)}})
}

// pair connects two ends. The timeout is the delay of an RC QP after a lost packet that
// no other one follows: 11 is 8 ms, 14 is 67 ms. To rxe 7 retries are without end,
// so none of them fails by bad luck.
func (l *lossy) pair(t *testing.T, typ verbs.QPType, timeout uint8, s kit.RxeSetup) (*kit.RxeEnd, *kit.RxeEnd) {
	t.Helper()
	a, b := l.a.End(t, typ, s), l.b.End(t, typ, s)
	for _, e := range []*kit.RxeEnd{a, b} {
		e.ToInit()
	}
	a.ToRTR(b)
	b.ToRTR(a)
	for _, e := range []*kit.RxeEnd{a, b} {
		attr := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, AckTimeout: 4096 << timeout, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 4}
		mask := verbs.QPAttrSQPSN
		if typ == verbs.QPTypeRC {
			mask |= verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
		}
		e.Modify(attr, mask)
	}
	return a, b
}

func (l *lossy) reliable(t *testing.T, s stream) {
	slot, depth := slices.Max(s.sizes), 2*s.window
	a, b := l.pair(t, verbs.QPTypeRC, s.timeout, kit.RxeSetup{Size: depth * slot,
		Cap: verbs.QPCap{MaxSendWR: uint32(s.window), MaxRecvWR: uint32(depth)}})
	kit.Lose(t, "gvnear", l.percent)
	kit.Lose(t, "gvaway", 0)
	if s.deaf {
		kit.Lose(t, "gvaway", l.percent)
	}
	begin, retries := time.Now(), counter(t, "gvrxen", "completer_retry_err")
	for i := range depth {
		b.PostRecv(uint64(i), i*slot, slot)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*kit.Patience) // seconds, on a quiet host
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
func (l *lossy) receive(ctx context.Context, e *kit.RxeEnd, s stream, slot int) error {
	depth := 2 * s.window
	wcs := make([]verbs.WC, s.window)
	for i := 0; i < s.n; {
		got, err := e.RecvCQ.Wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		for _, wc := range wcs[:got] {
			want, at := l.content(i, s.sizes), i%depth
			if wc.Status != verbs.StatusSuccess || wc.Imm != uint32(i) || wc.WRID != uint64(at) || int(wc.ByteLen) != len(want) {
				return fmt.Errorf("message %d of %d bytes: %+v", i, len(want), wc)
			}
			if !bytes.Equal(e.MR.Bytes()[at*slot:][:len(want)], want) {
				return fmt.Errorf("message %d of %d bytes: not what was sent", i, len(want))
			}
			if _, err := e.QP.PostRecv([]verbs.RecvWR{{WRID: wc.WRID, SGL: []verbs.SGE{e.MR.SGE(at*slot, slot)}}}); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// stream sends the messages, and has all complete in order.
func (l *lossy) stream(ctx context.Context, e *kit.RxeEnd, s stream) error {
	wcs := make([]verbs.WC, s.window)
	for posted, done := 0, 0; done < s.n; {
		for ; posted < s.n && posted-done < s.window; posted++ {
			if _, err := e.QP.PostSend([]verbs.SendWR{l.message(e, posted, s.sizes)}); err != nil {
				return fmt.Errorf("send %d: %w", posted, err)
			}
		}
		got, err := e.SendCQ.Wait(ctx, wcs)
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
	a, b := l.pair(t, verbs.QPTypeRC, 11, kit.RxeSetup{})
	kit.Lose(t, "gvnear", l.percent)
	kit.Lose(t, "gvaway", l.percent)
	const size = 5000
	fill(b.MR.Bytes()[8:])
	for i := range n {
		offset := 8 + i*61%(kit.MemorySize-size-8)
		clear(a.MR.Bytes()[8:][:size])
		a.Post(a.To(verbs.SendWR{WRID: 1, Opcode: verbs.OpFetchAdd, CompareAdd: 1, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{a.MR.SGE(0, 8)}}))
		read := a.To(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{a.MR.SGE(8, size)}})
		read.RemoteAddr += uint64(offset)
		a.Post(read)
		a.Sent("1 FETCH_ADD success")
		a.Sent("2 RDMA_READ success")
		if old := binary.NativeEndian.Uint64(a.MR.Bytes()); old != uint64(i) {
			t.Fatalf("add %d: it was %d", i, old)
		}
		if !bytes.Equal(a.MR.Bytes()[8:][:size], b.MR.Bytes()[offset:][:size]) {
			t.Fatalf("read %d: not what is there", i)
		}
	}
	if got := binary.NativeEndian.Uint64(b.MR.Bytes()); got != uint64(n) {
		t.Errorf("added %d times, want %d", got, n)
	}
	l.heal(t, "gvnear")
	l.heal(t, "gvaway")
}

// unreliable sends n messages into as many receives, so that the wire alone loses
// any.
func (l *lossy) unreliable(t *testing.T, typ verbs.QPType, n int, sizes []int) {
	const more = 1000 // to mark the end of those, until one arrives
	s := &sieve{lossy: l, sizes: sizes, seen: make(map[int]bool)}
	if typ == verbs.QPTypeUD {
		s.front = uverbs.GRHSize
	}
	s.slot = s.front + slices.Max(sizes)
	s.from, s.to = l.pair(t, typ, 0, kit.RxeSetup{Size: (n + more) * s.slot, CQE: n + more,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: uint32(n + more)}})
	for i := range n + more {
		s.to.PostRecv(uint64(i), i*s.slot, s.slot)
	}
	kit.Lose(t, "gvnear", l.percent)
	s.send(t, n)
	for s.last < n {
		s.send(t, 1)
		s.look(t)
	}
	lost := s.Sent - len(s.seen)
	t.Logf("lost %d of %d messages", lost, s.Sent)
	if lost == 0 || len(s.seen) < n/10 {
		t.Errorf("%d of %d messages arrived", len(s.seen), s.Sent)
	}
	l.heal(t, "gvnear")
	s.send(t, 1) // UC may drop one more message where one was cut off
	whole := s.Sent
	s.send(t, 10)
	s.until(t, func() bool { return s.has(whole, s.Sent) })
}

// sieve is a pair of ends on a lossy wire: one receives some of the messages that the other sends.
type sieve struct {
	*lossy
	from, to    *kit.RxeEnd
	sizes       []int
	front, slot int // bytes before a message; of a receive
	Sent, last  int // messages sent; the newest that arrived
	seen        map[int]bool
}

const sendDepth = 32

func (s *sieve) send(t *testing.T, n int) {
	t.Helper()
	for end := s.Sent + n; s.Sent < end; {
		var batch []verbs.SendWR
		for i := s.Sent; i < min(s.Sent+sendDepth, end); i++ {
			batch = append(batch, s.message(s.from, i, s.sizes))
		}
		s.from.Post(batch...)
		for range batch {
			s.from.Sent(fmt.Sprintf("%d SEND success", s.Sent))
			s.Sent++
		}
	}
}

// until receives until enough has arrived.
func (s *sieve) until(t *testing.T, enough func() bool) {
	t.Helper()
	for begin := time.Now(); !enough(); s.look(t) {
		if time.Since(begin) > kit.Patience {
			t.Fatalf("%d of %d messages arrived, and no more", len(s.seen), s.Sent)
		}
	}
}

// has reports whether the messages from one number to before another have arrived.
func (s *sieve) has(from, to int) bool {
	for i := from; i < to; i++ {
		if !s.seen[i] {
			return false
		}
	}
	return true
}

// look receives until nothing has arrived for a while.
func (s *sieve) look(t *testing.T) {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		n, err := s.to.RecvCQ.Wait(ctx, wcs)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			s.check(t, wc)
		}
	}
}

// check holds a message to be whole, and new.
func (s *sieve) check(t *testing.T, wc verbs.WC) {
	t.Helper()
	i := int(wc.Imm)
	want := s.content(i, s.sizes)
	if wc.Status != verbs.StatusSuccess || int(wc.ByteLen) != s.front+len(want) || s.seen[i] {
		t.Fatalf("message %d of %d bytes, seen before: %v: %+v", i, len(want), s.seen[i], wc)
	}
	if !bytes.Equal(s.to.MR.Bytes()[int(wc.WRID)*s.slot+s.front:][:len(want)], want) {
		t.Fatalf("message %d of %d bytes: not what was sent", i, len(want))
	}
	s.seen[i], s.last = true, max(s.last, i)
}

// drops counts the packets that a queue has lost since lose was called last.
func drops(t *testing.T, dev string) (n int) {
	t.Helper()
	var queues []struct {
		Kind  string
		Drops int
	}
	if err := json.Unmarshal([]byte(kit.Sh(t, "tc -s -j qdisc show dev "+dev)), &queues); err != nil || len(queues) != 1 || queues[0].Kind != "netem" {
		t.Fatalf("%+v, %v", queues, err)
	}
	return queues[0].Drops
}

// counter reads a hardware counter, as rxe calls its own.
func counter(t *testing.T, link, name string) int {
	t.Helper()
	text := kit.Must(os.ReadFile("/sys/class/infiniband/" + link + "/ports/1/hw_counters/" + name))(t)
	return kit.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
}
