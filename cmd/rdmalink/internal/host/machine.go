package host

import (
	"os"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// Machine is the interface of the commands to the machine: the kernel, by each of
// its interfaces, and its file systems. Tests use fakes.
type Machine struct {
	RDMA      *netlinkrdma.Client
	Net       Netdevs
	Route     Route
	Open      func(device string) (*uverbs.Device, error)
	OpenCM    func() error
	Proc, Sys Tree
	Modules   Tree // /lib/modules
}

// This is the one that the process runs on.
func This() Machine {
	return Machine{RDMA: &netlinkrdma.Client{}, Net: kernelNetdevs{}, Route: kernelRoute, Open: uverbs.Open, OpenCM: openCM,
		Proc: Tree{os.DirFS("/proc")}, Sys: Tree{os.DirFS("/sys")}, Modules: Tree{os.DirFS("/lib/modules")}}
}

// openCM opens the connection manager's channel, the first step of every
// connection.
func openCM() error {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	return ch.Close()
}
