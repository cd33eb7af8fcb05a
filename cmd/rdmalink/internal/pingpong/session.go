// Package pingpong passes messages to and fro without a connection manager, as the
// ibv_*_pingpong programs do, which may be the other end.
package pingpong

import (
	"context"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details returns the help text, with the options from the parser's table.
func (k *Kind) Details() string {
	var b strings.Builder
	b.WriteString(`
Without HOST: serve one client. With it: the client of the server there. The two
tell each other their addresses over TCP, and then pass one message to and fro.

`)
	b.WriteString(k.options().Help())
	b.WriteString(`
Without -g the GID is one for RoCE v2: that of the address which TCP uses, if the
device has it, else one of the same address family. C needs its -g on RoCE. C's
-j (device memory) is JSON here; C's -t, -N, -O and -U there are not.

An interrupt ends either side. The exit code is 0 after all exchanges; 1 after a
failure, also if -c finds wrong data; 2 for a command line that makes no sense.`)
	return b.String()
}

// Run runs the program of the kind.
func (k *Kind) Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(k, args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &session{Output: out, kind: k, options: o}
	return p.run(ctx)
}

// session is one run of the command.
type session struct {
	cli.Output
	options
	kind *Kind
}
