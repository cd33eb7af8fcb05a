// Package proxy passes connections on between TCP and RDMA.
package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details is what -h tells.
func Details() string {
	return `
Programs that know nothing of RDMA use it through two proxies, one beside each:

  server$ rdmalink proxy rdma::7471 tcp:127.0.0.1:80
  client$ rdmalink proxy tcp:127.0.0.1:8080 rdma:10.0.0.2:7471
  client$ curl http://127.0.0.1:8080/

For each connection to LISTEN it connects to CONNECT and passes data on in both
directions, the end of each direction too. rdma: is librdmacm's rsocket protocol, so
one side may also be a program on rsocket. Without HOST it listens on all addresses.

` + table.Help() + `
It goes on until an interrupt, which ends all connections. A connection that
fails is told of and ends alone. The exit code is 0 after an interrupt, 1 when it
can't listen, 2 for a command line that makes no sense.`
}

// Run is the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &proxy{Output: out, options: o}
	l, err := o.from.listen(ctx)
	if err != nil {
		return err
	}
	return p.serve(ctx, l)
}

// proxy is one run of the command.
type proxy struct {
	cli.Output
	options
	printing sync.Mutex
}

func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		in, err := l.Accept()
		switch {
		case err == nil:
			conns.Go(func() { p.pass(ctx, in) }) // which closes it when ctx is over
		case ctx.Err() != nil:
			return nil
		case temporary(err):
			p.Note("%s", cli.Plain(err))
			pause(ctx)
		default:
			return err
		}
	}
}

// temporary tells of errors after which a listener goes on, for want of descriptors.
func temporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// pause gives this machine time to have again what it ran out of.
func pause(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}
