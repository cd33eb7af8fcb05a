//go:build linux

package main

import (
	"context"
	"os"
	"slices"

	"github.com/goverbs/goverbs/test/rig"
)

// needed holds the Debian packages that the benchmark needs in addition to those of the test machine.
// They are for building programs against rdma-core.
var needed = []string{"libibverbs-dev", "librdmacm-dev"}

// install installs everything that the trials need, including kernels.
func install(ctx context.Context, trials []trial) error {
	var series []string
	for _, t := range trials {
		if t.environment.series != "" && !slices.Contains(series, t.environment.series) {
			series = append(series, t.environment.series)
		}
	}
	if err := rig.Fetch(ctx, os.Stderr, series...); err != nil {
		return err
	}
	return rig.Install(ctx, os.Stderr, needed...)
}
