package ping

import (
	"fmt"
	"math/bits"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
)

// report is how the pings went, as -j prints it.
type report struct {
	Host     string         `json:"host"`
	Peer     netip.AddrPort `json:"peer,omitzero"`
	Device   string         `json:"device,omitempty"`
	Sent     int            `json:"sent"`
	Answered int            `json:"answered"`
	Seconds  float64        `json:"seconds"`
	Connect  float64        `json:"connect_usec,omitempty"` // the last time
	Min      float64        `json:"min_usec"`
	Mean     float64        `json:"mean_usec"`
	P50      float64        `json:"p50_usec"`
	P90      float64        `json:"p90_usec"`
	P99      float64        `json:"p99_usec"`
	Max      float64        `json:"max_usec"`
	Error    string         `json:"error,omitempty"` // of the last ping that was lost

	start time.Time
	times times
}

// connected records and prints the connection.
func (s *session) connected(l *rping.Link, took time.Duration) error {
	s.Peer, s.Device, s.Connect = l.RemoteAddr(), l.Device(), usec(took)
	return s.say("PING %s (%s) over %s: %d bytes, connected in %s\n", s.host, s.Peer, s.Device, s.size, millis(took))
}

// counted counts and prints ping n.
func (s *session) counted(n int, took time.Duration, err error) error {
	s.Sent++
	if err != nil {
		s.Error = cli.Plain(err)
		return s.say("lost: seq=%d: %s\n", n, cli.PlainLine(err))
	}
	s.Answered++
	s.times.add(took)
	return s.say("%d bytes from %s: seq=%d time=%s\n", s.size, s.Peer.Addr(), n, millis(took))
}

// say prints a line of progress.
func (s *session) say(format string, args ...any) error {
	if s.quiet || s.JSON {
		return nil
	}
	return s.Printf(format, args...)
}

// summary prints the summary at the end.
func (s *session) summary() error {
	r := &s.report
	r.Seconds = time.Since(r.start).Seconds()
	t := &r.times
	p50, p90, p99 := t.percentile(50), t.percentile(90), t.percentile(99)
	r.Min, r.Mean, r.Max = usec(t.min), usec(t.mean()), usec(t.max)
	r.P50, r.P90, r.P99 = usec(p50), usec(p90), usec(p99)
	if s.JSON {
		return s.WriteJSON(r)
	}
	lost := 0.
	if r.Sent > 0 {
		lost = 100 * float64(r.Sent-r.Answered) / float64(r.Sent)
	}
	err := s.Printf("--- %s RDMA ping statistics ---\n%d pings, %d answered, %.4g%% lost, time %.3f s\n",
		s.host, r.Sent, r.Answered, lost, r.Seconds)
	if err == nil && r.Answered > 0 {
		err = s.Printf("time min/mean/p50/p90/p99/max = %s/%s/%s/%s/%s/%s\n",
			bare(t.min), bare(t.mean()), bare(p50), bare(p90), bare(p99), millis(t.max))
	}
	return err
}

func usec(d time.Duration) float64  { return float64(d.Nanoseconds()) / 1e3 }
func bare(d time.Duration) string   { return fmt.Sprintf("%.3f", float64(d.Nanoseconds())/1e6) }
func millis(d time.Duration) string { return bare(d) + " ms" }

// times counts durations in a few kilobytes, regardless of their number. A percentile is
// the upper end of its bucket, at most 1.6 % too long.
type times struct {
	n        int
	min, max time.Duration
	sum      time.Duration
	buckets  [64 << subBits]int
}

// subBits is the number of bits of a duration, after its first set bit, that select a
// bucket.
const subBits = 6

func (t *times) add(d time.Duration) {
	d = max(d, 0)
	if t.n == 0 || d < t.min {
		t.min = d
	}
	t.max = max(t.max, d)
	t.n++
	t.sum += d
	t.buckets[bucket(uint64(d))]++
}

// bucket has one duration each below 1<<subBits, and then 1<<subBits buckets from power to
// power.
func bucket(d uint64) int {
	shift := max(bits.Len64(d)-subBits-1, 0)
	return shift<<subBits + int(d>>shift)
}

// end is the longest duration in a bucket.
func end(bucket int) time.Duration {
	shift := max(bucket>>subBits-1, 0)
	return time.Duration((uint64(bucket-shift<<subBits)+1)<<shift - 1)
}

// percentile is the duration that p of a hundred don't exceed.
func (t *times) percentile(p float64) time.Duration {
	rank := int(p / 100 * float64(t.n))
	for i, n := range t.buckets {
		if rank -= n; rank < 0 {
			return min(end(i), t.max)
		}
	}
	return t.max
}

func (t *times) mean() time.Duration {
	if t.n == 0 {
		return 0
	}
	return t.sum / time.Duration(t.n)
}
