package rdma

import (
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// root returns a table with the commands of this package.
func root() cli.Command { return cli.Root(Commands()...) }

func runLine(t *cli.Tool, line string, nets *hosttest.Netdevs) clitest.Result {
	return clitest.Run(t, root(), line, nets)
}
