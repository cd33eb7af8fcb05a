package main

import (
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cp"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/devinfo"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/doctor"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/exporter"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/fabriccmd"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perfcmd"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/ping"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/pingpong"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/proxy"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/qpstates"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rdma"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/sandbox"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/top"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/topocmd"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/trace"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/watch"
)

// root returns the table of commands.
func root() cli.Command {
	return cli.Root(append(rdma.Commands(), // first: they may be abbreviated as in iproute2
		devinfo.Command(),
		watch.Command(),
		top.Command(),
		exporter.Command(),
		doctor.Command(),
		topocmd.Command(),
		qpstates.Command(),
		dump.Command(),
		fabriccmd.Command(),
		trace.Command(),
		ping.Command(),
		rping.Command(),
		pingpong.Command(),
		proxy.Command(),
		cp.Command(),
		perfcmd.Command(),
		sandbox.Command(),
	)...)
}
