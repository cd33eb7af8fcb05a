//go:build vm

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

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
	only612(t)
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	mr := must(d.pd.AllocMR(crowd*(letters+1)*letterSize, verbs.AccessLocalWrite, nil))(t)
	closeLater(t, mr)
	channel := must(d.CreateCompChannel())(t)
	closeLater(t, channel)

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
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
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

func (m *member) join(t *testing.T, d *rxeDevice, channel *uverbs.CompChannel) {
	t.Helper()
	m.cq = must(d.CreateCQ(2*letters, &uverbs.CQOptions{Channel: channel}))(t)
	m.qp = must(d.pd.CreateQP(&uverbs.QPOptions{SendCQ: m.cq, RecvCQ: m.cq,
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

func (m *member) meet(t *testing.T, d *rxeDevice, peer *member) {
	t.Helper()
	m.peer = peer
	if err := m.qp.Connect(&verbs.QPAttr{DestQPN: peer.qp.Num(), AH: verbs.AHAttr{
		Global: true, DGID: d.gid.GID, SGIDIndex: d.gid.Index, HopLimit: 64}}); err != nil {
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
	copy(pattern(letter, byte(round)), fmt.Sprintf("%d of QP %d;", round, m.id))
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
			case wc.Status != verbs.StatusSuccess || wc.QPN != m.qp.Num():
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
	status := must(os.ReadFile("/proc/self/status"))(t)
	fmt.Sscan(string(vmRSS.FindSubmatch(status)[1]), &n)
	return n << 10
}
