package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rsocket"
)

// endpoint is an address to listen on or to connect to: tcp:HOST:PORT or
// rdma:HOST:PORT.
type endpoint struct {
	rdma    bool
	address string
}

func parseEndpoint(word string) (endpoint, error) {
	kind, address, _ := strings.Cut(word, ":")
	if kind != "tcp" && kind != "rdma" {
		return endpoint{}, cli.UsageError{Text: fmt.Sprintf("%q: want tcp:HOST:PORT or rdma:HOST:PORT", word)}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return endpoint{}, cli.UsageError{Text: fmt.Sprintf("%q: %v", word, err)}
	}
	return endpoint{kind == "rdma", address}, nil
}

func (e endpoint) listen(ctx context.Context) (net.Listener, error) {
	if e.rdma {
		var lc rsocket.ListenConfig
		return lc.Listen(ctx, "rsocket", e.address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", e.address)
}

func (e endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.rdma {
		return rsocket.DialContext(ctx, "rsocket", e.address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", e.address)
}

func (e endpoint) String() string {
	if e.rdma {
		return "rdma:" + e.address
	}
	return "tcp:" + e.address
}
