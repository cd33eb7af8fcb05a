package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// measure runs the program of the kind.
func (k perfKind) measure(ctx context.Context, out cli.Output, args []string) error {
	o, err := parsePerf(k, args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &perfRun{Output: out, perfOptions: o, kind: k}
	return p.run(ctx)
}
