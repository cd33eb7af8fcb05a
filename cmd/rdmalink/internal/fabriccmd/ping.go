package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type pingOptions struct {
	common
	target
	count         int
	oui           int
	flood, server bool
}

var ping = define(&program{
	name: "ping", args: "[OPTIONS] ADDRESS | -S",
	summary: "send requests to the responder at a port and print the round-trip times",
	text: `
The other end is rdmalink fabric ping -S, or ibping -S of infiniband-diags. Pings are
management datagrams, which the CPU of a switch or a host answers. They show that the
path works, but do not measure the latency of RDMA.
`,
}, 1, append(commonRows[pingOptions](),
	lidRow[pingOptions](),
	guidRow[pingOptions](),
	smRow[pingOptions](),
	cli.NewRow('c', "count", "N", "number of pings (default: until interrupted)", cli.Number("number of pings", 1, math.MaxInt32, func(o *pingOptions) *int { return &o.count })),
	cli.NewRow('f', "flood", "", "send the next ping as soon as the response arrives (default: one per second)", cli.Flag(func(o *pingOptions) *bool { return &o.flood })),
	cli.NewRow('o', "oui", "OUI", "organization of the vendor class (default 0x1405, OpenIB)", cli.Number("OUI", 1, 1<<24-1, func(o *pingOptions) *int { return &o.oui })),
	cli.NewRow('S', "Server", "", "answer pings", cli.Flag(func(o *pingOptions) *bool { return &o.server })),
), doPing)

func doPing(ctx context.Context, s *session, o *pingOptions, words []string) error {
	if o.oui == 0 {
		o.oui = int(mad.OUIOpenIB)
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	if o.server {
		if len(words) > 0 {
			return cli.UsageError{Text: "-S takes no address"}
		}
		if err := fabric.ServePing(ctx, s.port, uint32(o.oui), hostname()); !errors.Is(err, ctx.Err()) || ctx.Err() == nil {
			return err
		}
		return nil
	}
	if len(words) == 0 {
		return cli.Expected("", "ADDRESS", "-S")
	}
	lid, err := s.lid(ctx, c, o.target, words[0])
	if err != nil {
		return err
	}
	return s.pings(ctx, c, c.GSI(lid), fmt.Sprintf("Lid %d", lid), o)
}

// hostname returns the name of the host with its domain, as ibping sends it.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	domain, err := os.ReadFile("/proc/sys/kernel/domainname")
	if d := strings.TrimSpace(string(domain)); err == nil && d != "" {
		host += "." + d
	}
	return host
}

// pings sends the requested number of pings, or until the context ends, and prints the statistics.
func (s *session) pings(ctx context.Context, c *fabric.Client, to mad.Addr, where string, o *pingOptions) error {
	var sent, received int
	var least, most, sum time.Duration
	host := ""
	start := time.Now()
	for (o.count == 0 || sent < o.count) && ctx.Err() == nil {
		if sent > 0 && !o.flood {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				continue
			}
		}
		name, rtt, err := c.Ping(ctx, to, uint32(o.oui))
		if err != nil && ctx.Err() != nil {
			break
		}
		sent++
		if err != nil {
			s.Note("%s: %s", where, cli.PlainLine(err))
			if errors.Is(err, mad.ErrTimeout) {
				continue
			}
			return cli.ExitCode(cli.ExitFailed)
		}
		host = cli.Printable(name)
		if received++; received == 1 {
			least = rtt
		}
		least, most, sum = min(least, rtt), max(most, rtt), sum+rtt
		if s.JSON {
			if err := s.WriteJSON(table.Table{{Key: "host", Value: host}, {Key: "lid", Value: uint32(to.LID)}, {Key: "time_usec", Value: uint64(rtt.Microseconds())}}); err != nil {
				return err
			}
		} else if !o.flood {
			if err := s.Printf("Pong from %s (%s): time %s ms\n", host, where, ms(rtt)); err != nil {
				return err
			}
		}
	}
	mean := time.Duration(0)
	if received > 0 {
		mean = sum / time.Duration(received)
	}
	if !s.JSON {
		lost := 0
		if sent > 0 {
			lost = (sent - received) * 100 / sent
		}
		if err := s.Printf("\n--- %s (%s) ibping statistics ---\n%d packets transmitted, %d received, %d%% packet loss, time %d ms\nrtt min/avg/max = %s/%s/%s ms\n",
			host, where, sent, received, lost, time.Since(start).Milliseconds(), ms(least), ms(mean), ms(most)); err != nil {
			return err
		}
	}
	if received == 0 {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 3, 64)
}
