package cm

import (
	"fmt"
	"math"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// options holds the options of all programs. Each program uses some of them.
type options struct {
	server, bind, group string
	port                int
	portSpace           verbs.PortSpace
	qpType              verbs.QPType // 0: the port space's type
	numeric             bool         // accept no host names
	connections         int
	count, size         int // of messages
	tos, ackTimeout     int // -1: the system's
	migrate             bool
	sender, sendOnly    bool
	noLoopback          bool
	retries, limit      int // of cmtime: milliseconds
	asJSON              bool
}

// maxSize is the most bytes that one work request can carry.
const maxSize = math.MaxInt32

type row = cli.Row[options]

var (
	serverRow = cli.NewRow('s', "server", "HOST", "the server's address or name; without it this is the server", func(o *options, v string) error { o.server = v; return nil })
	bindRow   = cli.NewRow('b', "bind", "ADDR", "own address to connect from, or to listen on (default all)", func(o *options, v string) error { o.bind = v; return nil })
	formatRow = cli.NewRow('f', "format", "FORMAT", "of addresses: name (default), ip, ipv6 or gid", setFormat)
	jsonRow   = cli.NewRow('j', "json", "", "print one line of JSON, at the end", cli.Flag(func(o *options) *bool { return &o.asJSON }))
	countRow  = cli.NewRow('C', "count", "N", "messages each way on a connection (default 10)", cli.Number("count", 0, 1<<20, func(o *options) *int { return &o.count }))
	sizeRow   = cli.NewRow('S', "size", "BYTES", "of a message (default 100; 0: no messages)", cli.Number("size", 0, maxSize, func(o *options) *int { return &o.size }))
	tosRow    = cli.NewRow('t', "tos", "TOS", "type of service, or traffic class, from 0 to 255; for the client", cli.Number("type of service", 0, math.MaxUint8, func(o *options) *int { return &o.tos }))
)

func portRow(what string) row {
	return cli.NewRow('p', "port", "PORT", what, cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.port }))
}

func connectionsRow(what string) row {
	return cli.NewRow('c', "connections", "N", what, cli.Number("number of connections", 1, 1<<20, func(o *options) *int { return &o.connections }))
}

// setFormat parses the formats of librdmacm's programs, which compare only a prefix.
func setFormat(o *options, value string) error {
	switch v := strings.ToLower(value); {
	case strings.HasPrefix(v, "name"):
		o.numeric = false
	case strings.HasPrefix(v, "ip"):
		o.numeric = true
	case strings.HasPrefix(v, "gid"):
		return cli.UsageError{Text: "-f gid: addresses of family AF_IB are InfiniBand's; on RoCE and iWARP give an IP address"}
	default:
		return cli.Expected(value, "name", "ip", "ipv6", "gid")
	}
	return nil
}

func (p *Program) parse(args []string) (options, error) {
	o := p.defaults
	err := p.table.Parse(&o, args, func(word string) error {
		return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
	})
	if err == nil && p.check != nil {
		err = p.check(&o)
	}
	if o.size == 0 {
		o.count = 0
	}
	return o, err
}
