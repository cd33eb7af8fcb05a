package ping

import (
	"fmt"
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
