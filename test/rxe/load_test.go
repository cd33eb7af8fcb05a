//go:build vm

package rxe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	posters   = 8   // goroutines that post to one queue
	pollers   = 4   // goroutines that take completions off one CQ; every second waits
	each      = 250 // work requests that one of them posts
	throng    = posters * each
	batchSize = 7 // the most that one posts at a time
)

// TestRxeManyPosters has many goroutines post to the queues of one QP, and others
// take the completions off its CQs: each work request completes once. The target
// vmrace runs it under the race detector.
func TestRxeManyPosters(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			kit.RxeFabric(t)
			kit.NoLeak(t)
			s := kit.RxeSetup{CQE: throng, Cap: verbs.QPCap{MaxSendWR: 32, MaxRecvWR: 64}}
			if typ == verbs.QPTypeUD {
				s.Cap.MaxRecvWR = throng // a message without a receive is lost
			}
			a, b := kit.OpenRxe(t).Pair(t, typ, s)
			ctx, cancel := context.WithTimeout(t.Context(), 4*kit.Patience)
			defer cancel()
			var work sync.WaitGroup
			recv := post(ctx, t, &work, func(ids []uint64) (int, error) {
				wrs := make([]verbs.RecvWR, len(ids))
				for i, id := range ids {
					wrs[i] = verbs.RecvWR{WRID: id, SGL: []verbs.SGE{b.MR.SGE(0, uverbs.GRHSize+8)}}
				}
				return b.QP.PostRecv(wrs)
			})
			if typ == verbs.QPTypeUD {
				work.Wait()
			}
			received := collect(ctx, t, &work, b.RecvCQ, func(wc verbs.WC) uint64 { return uint64(wc.Imm) })
			sent := collect(ctx, t, &work, a.SendCQ, func(wc verbs.WC) uint64 { return wc.WRID })
			posted := post(ctx, t, &work, func(ids []uint64) (int, error) {
				wrs := make([]verbs.SendWR, len(ids))
				for i, id := range ids {
					wrs[i] = a.Send(id, kit.SendFrom, 8)
					wrs[i].Opcode, wrs[i].Imm = verbs.OpSendImm, uint32(id)
				}
				return a.QP.PostSend(wrs)
			})
			work.Wait()
			t.Logf("queues were full %d and %d times", recv.Load(), posted.Load())
			for what, seen := range map[string]*tally{"sent": sent, "received": received} {
				for id := range seen.times {
					if n := seen.times[id].Load(); n != 1 {
						t.Errorf("message %d was %s %d times", id, what, n)
					}
				}
			}
		})
	}
}

// post has goroutines post all work requests, in batches, and counts how often
// the queue was full.
func post(ctx context.Context, t *testing.T, work *sync.WaitGroup, queue func(ids []uint64) (int, error)) *atomic.Int32 {
	var full atomic.Int32
	for p := range posters {
		work.Go(func() {
			for next := 0; next < each && ctx.Err() == nil; {
				var ids []uint64
				for i := next; i < min(next+1+p%batchSize, each); i++ {
					ids = append(ids, uint64(p*each+i))
				}
				n, err := queue(ids)
				if next += n; errors.Is(err, verbs.ErrQueueFull) {
					full.Add(1)
					runtime.Gosched()
				} else if err != nil || n != len(ids) {
					t.Errorf("posted %d of %d: %v", n, len(ids), err)
					return
				}
			}
		})
	}
	return &full
}

// tally counts each message.
type tally struct {
	times [throng]atomic.Int32
	left  atomic.Int32
	done  context.CancelFunc
}

// collect has goroutines take completions, until there is one for each message.
func collect(ctx context.Context, t *testing.T, work *sync.WaitGroup, cq *uverbs.CQ, id func(verbs.WC) uint64) *tally {
	s := new(tally)
	s.left.Store(throng)
	ctx, s.done = context.WithCancel(ctx)
	for p := range pollers {
		take := func(wcs []verbs.WC) (int, error) { return cq.Wait(ctx, wcs) }
		if p%2 == 0 {
			take = func(wcs []verbs.WC) (int, error) {
				runtime.Gosched()
				return cq.Poll(wcs)
			}
		}
		work.Go(func() {
			for ctx.Err() == nil {
				wcs := make([]verbs.WC, 1+p)
				n, err := take(wcs)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				for _, wc := range wcs[:n] {
					s.count(t, wc, id(wc))
				}
			}
		})
	}
	return s
}

func (s *tally) count(t *testing.T, wc verbs.WC, id uint64) {
	if wc.Status != verbs.StatusSuccess || id >= throng {
		t.Errorf("%+v", wc)
		id = 0
	}
	s.times[id].Add(1)
	if s.left.Add(-1) == 0 {
		s.done()
	}
}

const (
	crowd      = 1000 // QPs, each connected to another one
	rounds     = 6    // messages each QP sends, one at a time
	letterSize = 64
	letters    = 4 // receives of a QP
)

// TestRxeThousandQPs has a thousand QPs talk at once, each with a CQ and a
// goroutine that waits for it, on one completion channel: one descriptor, and no
// thread but what Go would have anyway.
func TestRxeThousandQPs(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	mr := kit.Must(d.PD.AllocMR(crowd*(letters+1)*letterSize, verbs.AccessLocalWrite, nil))(t)
	kit.CloseLater(t, mr)
	channel := kit.Must(d.CreateCompChannel())(t)
	kit.CloseLater(t, channel)

	begin, heap, rss := time.Now(), heapInUse(), resident(t)
	all := make([]*member, crowd)
	for i := range all {
		all[i] = &member{id: i, mr: mr}
		all[i].join(t, d, channel)
	}
	for i, m := range all {
		m.meet(t, d, all[i^1])
	}
	t.Logf("made and connected in %v; %d bytes of heap and %d bytes resident a QP, with its CQ",
		time.Since(begin), (heapInUse()-heap)/crowd, (resident(t)-rss)/crowd)

	begin = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*kit.Patience)
	defer cancel()
	ended := make(chan error, crowd)
	for _, m := range all {
		go func() { ended <- m.talk(ctx) }()
	}
	failed := 0
	for range all {
		if err := <-ended; err != nil {
			if failed++; failed == 1 {
				t.Error(err)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d failed", failed, crowd)
	}
	t.Logf("%d messages in %v; %d bytes of heap and %d bytes resident a QP, with its goroutine",
		crowd*rounds, time.Since(begin), (heapInUse()-heap)/crowd, (resident(t)-rss)/crowd)

	begin = time.Now()
	var leaving sync.WaitGroup
	for _, m := range all {
		leaving.Go(func() {
			if err := errors.Join(m.qp.Close(), m.cq.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	leaving.Wait()
	t.Logf("closed in %v", time.Since(begin))
}

// member is one QP of the crowd.
type member struct {
	id   int
	mr   *uverbs.MR // of all
	cq   *uverbs.CQ
	qp   *uverbs.QP
	peer *member
}

func (m *member) join(t *testing.T, d *kit.RxeDevice, channel *uverbs.CompChannel) {
	t.Helper()
	m.cq = kit.Must(d.CreateCQ(2*letters, &uverbs.CQOptions{Channel: channel}))(t)
	m.qp = kit.Must(d.PD.CreateQP(&uverbs.QPOptions{SendCQ: m.cq, RecvCQ: m.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: letters, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	if err := m.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	for i := range letters {
		if err := m.receive(uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *member) meet(t *testing.T, d *kit.RxeDevice, peer *member) {
	t.Helper()
	m.peer = peer
	if err := m.qp.Connect(&verbs.QPAttr{DestQPN: peer.qp.QPN(), AH: verbs.AHAttr{
		Global: true, DGID: d.GID.GID, SGIDIndex: d.GID.Index, HopLimit: 64}}); err != nil {
		t.Fatal(err)
	}
}

// place is where a letter is; the last place is the one to send from.
func (m *member) place(i uint64) verbs.SGE {
	return m.mr.SGE((m.id*(letters+1)+int(i))*letterSize, letterSize)
}

func (m *member) letter(i uint64) []byte {
	return m.mr.Bytes()[(m.id*(letters+1)+int(i))*letterSize:][:letterSize]
}

func (m *member) receive(i uint64) error {
	_, err := m.qp.PostRecv([]verbs.RecvWR{{WRID: i, SGL: []verbs.SGE{m.place(i)}}})
	return err
}

// write fills a letter with this member's message for a round.
func (m *member) write(letter []byte, round int) []byte {
	copy(kit.Pattern(letter, byte(round)), fmt.Sprintf("%d of QP %d;", round, m.id))
	return letter
}

// talk sends all letters and gets as many, none before the answer to the last one:
// a member that runs ahead of a peer whose goroutine was not scheduled yet finds no receive.
func (m *member) talk(ctx context.Context) error {
	wcs := make([]verbs.WC, 2*letters)
	posted, sent, got := 0, 0, 0
	for sent < rounds || got < rounds {
		if posted < rounds && posted == min(sent, got) {
			if err := m.send(posted); err != nil {
				return err
			}
			posted++
		}
		n, err := m.cq.Wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("QP %d after %d sent and %d received: %w", m.id, sent, got, err)
		}
		for _, wc := range wcs[:n] {
			switch {
			case wc.Status != verbs.StatusSuccess || wc.QPN != m.qp.QPN():
				return fmt.Errorf("QP %d: %+v", m.id, wc)
			case wc.WRID == letters:
				sent++
			case wc.ByteLen != letterSize || !bytes.Equal(m.letter(wc.WRID), m.peer.write(make([]byte, letterSize), got)):
				return fmt.Errorf("QP %d, letter %d is not what was sent: %q, %+v", m.id, got, m.letter(wc.WRID), wc)
			default:
				got++
				if err := m.receive(wc.WRID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *member) send(round int) error {
	m.write(m.letter(letters), round)
	_, err := m.qp.PostSend([]verbs.SendWR{{WRID: letters, Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{m.place(letters)}}})
	return err
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

var vmRSS = regexp.MustCompile(`VmRSS:\s*(\d+) kB`)

// resident is the memory of this process, with the rings that the kernel made.
func resident(t *testing.T) (n int) {
	t.Helper()
	status := kit.Must(os.ReadFile("/proc/self/status"))(t)
	fmt.Sscan(string(vmRSS.FindSubmatch(status)[1]), &n)
	return n << 10
}

// TestRxeClosedUnderUse closes a device and all it has while goroutines post,
// poll, arm, wait, query and modify. Too early is ErrInUse and does no harm;
// afterwards every call says ErrClosed. The target vmrace runs it under the race
// detector.
func TestRxeClosedUnderUse(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			kit.RxeFabric(t)
			kit.NoLeak(t)
			for range 3 {
				closeUnderUse(t, typ)
			}
		})
	}
}

func closeUnderUse(t *testing.T, typ verbs.QPType) {
	d := kit.Must(uverbs.Open(kit.RxeLink))(t)
	r := &kit.RxeDevice{Device: d, T: t, PD: kit.Must(d.AllocPD())(t), Attr: kit.Must(d.QueryDevice())(t), GID: *kit.Must(d.ChooseGID(1, nil))(t)}
	u := &usage{t: t, channel: kit.Must(d.CreateCompChannel())(t)}
	u.mr = kit.Must(r.PD.AllocMR(kit.RecvSize, verbs.AccessLocalWrite, nil))(t)
	u.cq = kit.Must(d.CreateCQ(1024, &uverbs.CQOptions{Channel: u.channel}))(t)
	u.qp = kit.Must(r.PD.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: u.cq, RecvCQ: u.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	to := verbs.AHAttr{Global: true, DGID: r.GID.GID, SGIDIndex: r.GID.Index, HopLimit: 64, Port: 1}
	if typ == verbs.QPTypeUD {
		u.ah = kit.Must(r.PD.CreateAH(&to))(t)
	}
	attr := &verbs.QPAttr{QKey: kit.RxeQKey, DestQPN: u.qp.QPN(), AH: to}
	if err := errors.Join(u.qp.Init(attr), u.qp.Connect(attr)); err != nil {
		t.Fatal(err)
	}

	u.use("PostSend", u.send)
	u.use("PostRecv", u.receive)
	u.use("Poll", func() error { _, err := u.cq.Poll(make([]verbs.WC, 4)); return err })
	u.use("Arm", func() error { return u.cq.Arm(false) })
	for range 3 {
		u.use("Wait", func() error { _, err := u.cq.Wait(t.Context(), make([]verbs.WC, 1)); return err })
	}
	u.use("QP.Query", func() error { _, err := u.qp.Query(); return err })
	u.use("Device.QueryPort", func() error { _, err := d.QueryPort(1); return err })
	u.use("AsyncEvent", func() error { _, err := d.AsyncEvent(t.Context()); return err })
	for range 200 {
		u.cq.Poll(make([]verbs.WC, 1))
		runtime.Gosched()
	}
	for _, c := range []interface{ Close() error }{d, r.PD, u.channel, u.cq} {
		if err := c.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Errorf("%T: %v", c, err)
		}
	}
	u.closed(u.qp)
	if u.ah != nil {
		u.closed(u.ah)
	}
	u.closed(u.cq)
	u.closed(u.channel)
	u.closed(u.mr)
	u.closed(r.PD)
	u.closed(d)
	u.all.Wait()
}

// usage is a QP that talks to itself, in many goroutines.
type usage struct {
	t       *testing.T
	mr      *uverbs.MR
	channel *uverbs.CompChannel
	cq      *uverbs.CQ
	qp      *uverbs.QP
	ah      *uverbs.AH
	all     sync.WaitGroup
}

// use calls until something is closed.
func (u *usage) use(name string, call func() error) {
	u.all.Go(func() {
		var err error
		for err == nil {
			err = call()
			runtime.Gosched()
		}
		if !errors.Is(err, verbs.ErrClosed) {
			u.t.Errorf("%s: %v", name, err)
		}
	})
}

func (u *usage) send() error {
	_, err := u.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: u.ah,
		RemoteQPN: u.qp.QPN(), RemoteQKey: kit.RxeQKey, SGL: []verbs.SGE{u.mr.SGE(0, 8)}}})
	return ignoreFull(err)
}

func (u *usage) receive() error {
	_, err := u.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{u.mr.SGE(0, kit.RecvSize)}}})
	return ignoreFull(err)
}

func ignoreFull(err error) error {
	if errors.Is(err, verbs.ErrQueueFull) {
		return nil
	}
	return err
}

func (u *usage) closed(c interface{ Close() error }) {
	u.t.Helper()
	if err := c.Close(); err != nil {
		u.t.Errorf("%T: %v", c, err)
	}
}
