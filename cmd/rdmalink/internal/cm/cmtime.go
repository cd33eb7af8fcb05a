package cm

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

var cmtime = &Program{
	Name: "cmtime", Args: "[OPTIONS]",
	Summary: "measure how long each step of making connections takes; the other end may be cmtime up to rdma-core 51",
	text: `
The client takes all connections through each step before any goes on to the next,
and prints how long the step took for all, for the slowest and the quickest, and the
total divided by the number of connections. All queue pairs share a completion
queue. The server accepts until it is interrupted.

---

cmtime of rdma-core 52 and later agrees on each step over TCP, which this does not.
`,
	table: cli.Options(serverRow, bindRow, connectionsRow("how many (default 100)"), portRow("where the server listens (default 7471)"),
		cli.NewRow('r', "retries", "N", "of finding the address and the route, and of each message (default 2)", cli.Number("number of retries", 0, 7, func(o *options) *int { return &o.retries })),
		cli.NewRow('t', "timeout", "MS", "to wait for an address or a route (default 2000)", cli.Number("timeout", 1, math.MaxInt32, func(o *options) *int { return &o.limit })),
		jsonRow),
	defaults: options{port: 7471, portSpace: verbs.PortSpaceTCP, connections: 100, retries: 2, limit: 2000},
	run:      func(ctx context.Context, s *session) error { return (&timing{session: s}).run(ctx) },
}

// timing is a run of either side.
type timing struct {
	*session
	channel *channel
	devices devices
	conns   []*conn // the client's
}

func (m *timing) run(ctx context.Context) (err error) {
	if m.channel, err = openChannel(); err != nil {
		return err
	}
	side := m.measure
	if m.server == "" {
		side = m.serve
	}
	return errors.Join(side(ctx), m.channel.close(), m.devices.close())
}

// step is how long a step took.
type step struct {
	Name  string  `json:"name"`
	Total float64 `json:"total_msec"` // from the first one's beginning to the last one's end
	Max   float64 `json:"max_msec"`
	Min   float64 `json:"min_usec"`
	Each  float64 `json:"usec_per_connection"`
}

func newStep(name string, total time.Duration, each []time.Duration) step {
	s := step{Name: name, Total: msec(total), Min: math.Inf(1), Each: usec(total) / float64(len(each))}
	for _, took := range each {
		s.Max, s.Min = max(s.Max, msec(took)), min(s.Min, usec(took))
	}
	return s
}

func usec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func msec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// table prints the steps.
func (m *timing) table() error {
	if m.JSON {
		return nil
	}
	err := m.Printf("%-14s %12s %12s %12s %12s\n", "step", "total ms", "max ms", "min µs", "µs/conn")
	for _, s := range m.report.Steps {
		if err == nil {
			err = m.Printf("%-14s %12.2f %12.2f %12.2f %12.2f\n", s.Name, s.Total, s.Max, s.Min, s.Each)
		}
	}
	return err
}
