// Package perfcmd has the command line and the reports of rdmalink perf, which are
// those of perftest. Package perf does the measurement.
package perfcmd

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Run runs the program of the kind.
func (k Kind) Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(k, args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &session{Output: out, options: o, kind: k}
	return p.run(ctx)
}
