package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// options is the command line.
type options struct {
	kind    string
	hosts   int
	record  string // file
	trap    bool
	fabric  string // file or generator of an InfiniBand subnet; empty: none
	noSM    bool
	command []string
}

// kinds lists the devices that have models. mlx5-ib is mlx5 on InfiniBand. mlx5-old is mlx5 with its first kernels:
// registers that exist from the start, and completions of version 0. erdma-old is erdma as its first kernel could
// have it: no atomics, and one doorbell for all sends of a process. erdma-roce is erdma on RoCE v2.
var kinds = []string{"rxe", "siw", "erdma", "erdma-old", "erdma-roce", "mlx5", "mlx5-ib", "mlx5-old"}

// withRegisters lists the devices whose doorbells are stores by the program.
var withRegisters = []string{"erdma", "erdma-old", "erdma-roce", "mlx5", "mlx5-ib", "mlx5-old"}

const mostHosts = 64

// AddressFile is a file among a model's attributes in sysfs, in class/infiniband. It holds the address by which rdma_cm
// finds the device, because there is no network device.
const AddressFile = "rdmalink_sandbox"

var optionTable = cli.Options(
	cli.NewRow('d', "device", "KIND", "the device of each host: "+strings.Join(kinds, ", ")+" (default rxe)", setKind),
	cli.NewRow('n', "hosts", "N", "how many hosts there are (default 1)", cli.Number("hosts", 1, mostHosts, func(o *options) *int { return &o.hosts })),
	cli.NewRow('r', "record", "FILE", "record the traffic between programs and device", func(o *options, value string) error { o.record = value; return nil }),
	cli.NewRow('f', "fabric", "TOPOLOGY", "InfiniBand subnet of hosts with management datagrams, and no other device", func(o *options, value string) error { o.fabric = value; return nil }),
	cli.NewRow(0, "no-sm", "", "leave the subnet of --fabric to a subnet manager that CMD runs", cli.Flag(func(o *options) *bool { return &o.noSM })),
	cli.NewRow('t', "trap", "", strings.Join(withRegisters, ", ")+": stop programs at each store to a register", cli.Flag(func(o *options) *bool { return &o.trap })),
)

func setKind(o *options, value string) error {
	if !slices.Contains(kinds, value) {
		return cli.Expected(value, kinds...)
	}
	o.kind = value
	return nil
}

func parseOptions(args []string) (options, error) {
	var o options
	end := slices.Index(args, "--")
	if end < 0 || end == len(args)-1 {
		return o, cli.UsageError{Text: "expected -- and the command to run"}
	}
	o.command = args[end+1:]
	err := optionTable.Parse(&o, args[:end], func(word string) error {
		return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q before --", word)}
	})
	switch {
	case err != nil:
		return o, err
	case o.fabric == "" && o.noSM:
		return o, cli.UsageError{Text: "--no-sm goes with --fabric"}
	case o.fabric == "":
		o.kind, o.hosts = cmp.Or(o.kind, "rxe"), max(o.hosts, 1)
	case o.kind != "" || o.hosts != 0 || o.record != "" || o.trap:
		return o, cli.UsageError{Text: "--fabric goes without --device, --hosts, --record and --trap: its hosts have no such device"}
	}
	if o.trap && !slices.Contains(withRegisters, o.kind) {
		err = cli.UsageError{Text: "--trap goes with --device " + strings.Join(withRegisters, " or ") + ": other devices have no registers"}
	}
	return o, err
}

// Details returns the help text.
func Details() string {
	return `
CMD and its children see RDMA devices that are models in rdmalink, with device nodes,
sysfs, netlink and the connection manager. The programs may be C programs that use
libibverbs and librdmacm, or static programs. This needs no privileges, no kernel
module and no network.

  $ rdmalink sandbox -- ibv_devinfo -v
  $ rdmalink sandbox -- sh -c 'ibv_rc_pingpong -g 1 & sleep 1; ibv_rc_pingpong -g 1 localhost'
  $ rdmalink sandbox --device siw -- sh -c 'rping -s -C 3 & sleep 1; rping -c -a 198.51.100.1 -C 3'

mlx5-ib is mlx5 on InfiniBand, and erdma-roce is erdma on RoCE v2 in place of iWARP. mlx5-old and
erdma-old are devices as their first kernels could have them.

Each host has one device. Host K has the address 198.51.100.K, for rdma_cm; TCP is the
machine's own. A process runs on host 1 unless ` + hostVariable + ` in its environment names another host:

  $ rdmalink sandbox --hosts 2 -- sh -c 'rping -s & sleep 1; ` + hostVariable + `=2 rping -c -a 198.51.100.1 -C 3'

With --fabric, hosts are the adapters of an InfiniBand subnet in software. They have umad and issm
nodes for programs such as those of infiniband-diags, and no verbs. TOPOLOGY is a file in the format
of ibnetdiscover, fat-tree:RADIXxLEVELS, or dragonfly:GROUPSxSWITCHESxHOSTS. A process runs on the
first adapter unless ` + hostVariable + ` has the name of a node, or the number of an adapter. The subnet
has a subnet manager on its first adapter, unless --no-sm leaves it to opensm:

  $ rdmalink sandbox --fabric fat-tree:4x2 -- ibnetdiscover
  $ rdmalink sandbox --fabric fat-tree:4x2 -- sh -c '` + hostVariable + `=h8 ibping -S & ibping -c 3 8'
  $ rdmalink sandbox --fabric net.topo --no-sm -- sh -c 'opensm & sleep 5; ibnetdiscover'

` + optionTable.Help() + `
A recording contains the driver-specific bytes of calls and, for erdma and mlx5, all queue entries,
doorbells and doorbell records. diff compares two recordings, except for addresses, keys and
numbers, which differ from run to run. Its exit code is 1 if they differ:

  $ rdmalink sandbox diff A B

Programs that use the queues or registers of a device in an invalid way are reported at the end;
then the exit code is 1, unless CMD failed. Registers are polled every 20 to 100 us: of two stores
to the same doorbell between two polls, the device sees only the second. With --trap, each store
stops the program until the device has seen the store and the memory at that time, so a record that
is written after its doorbell is detected. A store then costs about 100 us, and each signal, new
thread and new process costs time too. --trap needs amd64 and ptrace(2), so neither a debugger nor
strace can be used. It supports the store instructions of compilers, up to SSE.

The sandbox needs Linux 5.9 with seccomp, on amd64 or arm64. Before Linux 5.19, a signal may cause
a system call to be carried out twice. The exit code is CMD's, or 128 plus the number of the signal
that ended it. Processes that CMD leaves running are killed. A process must not close its devices
and open other files at descriptor numbers from 900 on. The sandbox is a tool for tests, not a
security boundary.`
}

// hostVariable says, in the environment of a process, on which host it runs.
const hostVariable = "GOVERBS_HOST"
