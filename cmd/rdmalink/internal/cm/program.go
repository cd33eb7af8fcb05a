// Package cm has equivalents of librdmacm's test programs, each of which may be the
// other end.
package cm

import (
	"context"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Program is one of them.
type Program struct {
	Name, Args, Summary string
	text                string // of -h, before and, below a line ---, behind the options
	table               cli.Getopt[options]
	defaults            options
	check               func(*options) error
	run                 func(context.Context, *session) error
}

// Programs are all of them.
var Programs = []*Program{ucmatose, udaddy, mckey, cmtime, rdmaClient, rdmaServer, rdmaXClient, rdmaXServer}

// Details returns the help text.
func (p *Program) Details() string {
	before, after, _ := strings.Cut(p.text, "---\n")
	return before + p.table.Help() + after + `
The exit code is 0 if all went well, 1 after a failure, 2 for a command line that
is invalid.`
}

// Run runs the program with a command line.
func (p *Program) Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := p.parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	s := newSession(p.Name, out, o)
	return s.finish(p.run(ctx, s))
}

// session is one run.
type session struct {
	cli.Output
	options
	report report
}
