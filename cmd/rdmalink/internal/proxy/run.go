// Package proxy passes connections on between TCP and RDMA.
package proxy

import (
	"context"
	"net"
	"sync"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details returns the help text.
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
When one end fails or stops reading, what the other one has sent is still passed on,
until nothing has passed for 5 seconds: a server that answers early and closes loses
no answer.

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
	return cli.AcceptAll(ctx, l, p.most, p.pass, func(err error) {
		p.printing.Lock()
		defer p.printing.Unlock()
		p.Note("%s", cli.PlainLine(err))
	})
}
