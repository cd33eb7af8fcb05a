package cm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

var ucmatose = &Program{
	Name: "ucmatose", Args: "[OPTIONS]",
	Summary: "make many reliable connections and pass messages over each; the other end may be ucmatose",
	text: `
Both ends get the same -c, -C and -S. When all connections stand, the server sends
its messages on each; the client answers with as many, and the server
disconnects.

---

Over iWARP the end that connects has to send first, and here the server does. It
waits for 50 ms before, so that the client's kernel is ready; nothing tells it.
`,
	table: cli.Options(serverRow, bindRow, formatRow,
		cli.NewRow('P', "port-space", "PS", "tcp (default) or ib", setMatoseSpace),
		connectionsRow("how many (default 1)"), countRow, sizeRow, tosRow, portRow("where the server listens (default 7471)"),
		cli.NewRow('m', "migrate", "", "move all to another event channel before they end", cli.Flag(func(o *options) *bool { return &o.migrate })),
		cli.NewRow('a', "ack-timeout", "N", "4.096 µs times 2 to the power of N, up to 31, until a message is sent again", cli.Number("exponent", 0, 31, func(o *options) *int { return &o.ackTimeout })),
		jsonRow),
	defaults: options{port: 7471, portSpace: verbs.PortSpaceTCP, connections: 1, count: 10, size: 100, tos: -1, ackTimeout: -1},
	run:      func(ctx context.Context, s *session) error { return (&matose{session: s}).run(ctx) },
}

func setMatoseSpace(o *options, value string) error {
	switch v := strings.ToLower(value); {
	case strings.HasPrefix(v, "tcp"):
		o.portSpace = verbs.PortSpaceTCP
	case strings.HasPrefix(v, "ib"):
		o.portSpace = verbs.PortSpaceIB
	default:
		return cli.Expected(value, "tcp", "ib")
	}
	return nil
}

// matose is a run of either side.
type matose struct {
	*session
	channel *channel
	devices devices
	conns   []*conn
	ids     []*rdmacm.ID // that listen
}

func (m *matose) run(ctx context.Context) (err error) {
	if m.channel, err = openChannel(); err != nil {
		return err
	}
	m.conns = make([]*conn, m.connections)
	side := m.ask
	if m.server == "" {
		side = m.serve
	}
	return errors.Join(side(ctx), m.close())
}

func (m *matose) close() error {
	return errors.Join(closeAll(m.conns), destroy(m.ids), m.channel.close(), m.devices.close())
}

// stand prints that all connections are established.
func (m *matose) stand() error {
	return m.connected(m.conns[0].dev.Info().Name, len(m.conns))
}

// setOptions applies the options to a new ID.
func (m *matose) setOptions(id *rdmacm.ID) error {
	if m.tos >= 0 && m.server != "" {
		if err := id.SetTOS(uint8(m.tos)); err != nil {
			return err
		}
	}
	if m.ackTimeout >= 0 {
		return id.SetAckTimeout(uint8(m.ackTimeout))
	}
	return nil
}

func (m *matose) send(ctx context.Context, i int) error {
	return m.conns[i].postSends(m.count, m.size)
}

func (m *matose) sent(ctx context.Context, i int) error {
	return m.conns[i].take(ctx, m.conns[i].qp.SendCQ(), m.count)
}

func (m *matose) receive(ctx context.Context, i int) error {
	return m.conns[i].take(ctx, m.conns[i].qp.RecvCQ(), m.count)
}

// counted prints the number of messages of all connections.
func (m *matose) counted(start time.Time) error {
	n := len(m.conns) * m.count
	return m.transferred(start, n, n)
}
