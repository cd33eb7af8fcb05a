package sandbox

import (
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
	command []string
}

// kinds lists the devices that have models. mlx5-ib is mlx5 on InfiniBand. mlx5-old is mlx5 with its first kernels:
// registers that exist from the start, and completions of version 0.
var kinds = []string{"rxe", "siw", "erdma", "mlx5", "mlx5-ib", "mlx5-old"}

// withRegisters lists the devices whose doorbells are stores by the program.
var withRegisters = []string{"erdma", "mlx5", "mlx5-ib", "mlx5-old"}

const mostHosts = 64

// AddressFile is a file among a model's attributes in sysfs, in class/infiniband. It holds the address by which rdma_cm
// finds the device, because there is no network device.
const AddressFile = "rdmalink_sandbox"

var optionTable = cli.Options(
	cli.NewRow('d', "device", "KIND", "the device of each host: "+strings.Join(kinds, ", ")+" (default rxe)", setKind),
	cli.NewRow('n', "hosts", "N", "how many hosts there are (default 1)", cli.Number("hosts", 1, mostHosts, func(o *options) *int { return &o.hosts })),
	cli.NewRow('r', "record", "FILE", "write down what crosses between programs and device", func(o *options, value string) error { o.record = value; return nil }),
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
	o := options{kind: "rxe", hosts: 1}
	end := slices.Index(args, "--")
	if end < 0 || end == len(args)-1 {
		return o, cli.UsageError{Text: "expected -- and the command to run"}
	}
	o.command = args[end+1:]
	err := optionTable.Parse(&o, args[:end], func(word string) error {
		return cli.UsageError{Text: fmt.Sprintf("%q stands before --", word)}
	})
	if err == nil && o.trap && !slices.Contains(withRegisters, o.kind) {
		err = cli.UsageError{Text: "--trap goes with --device " + strings.Join(withRegisters, " or ") + ": other devices have no registers"}
	}
	return o, err
}

// Details returns the help text.
func Details() string {
	return `
CMD and all that it starts see RDMA devices that are models in rdmalink: device nodes,
sysfs, netlink and the connection manager. The programs may be C's, with libibverbs and
librdmacm, or static. Nobody needs privileges, a kernel module or a network.

  $ rdmalink sandbox -- ibv_devinfo -v
  $ rdmalink sandbox -- sh -c 'ibv_rc_pingpong -g 1 & sleep 1; ibv_rc_pingpong -g 1 localhost'
  $ rdmalink sandbox --device siw -- sh -c 'rping -s -C 3 & sleep 1; rping -c -a 198.51.100.1 -C 3'

Each host has one device. Host K has the address 198.51.100.K, for rdma_cm; TCP is the
machine's own. A process runs on host 1 unless ` + hostVariable + ` in its environment is another:

  $ rdmalink sandbox --hosts 2 -- sh -c 'rping -s & sleep 1; ` + hostVariable + `=2 rping -c -a 198.51.100.1 -C 3'

` + optionTable.Help() + `
A recording has the private bytes of calls and, for erdma and mlx5, all entries of queues, doorbells
and records. Two are compared but for addresses, keys and numbers, which differ from run to
run; the exit code is 1 where they differ:

  $ rdmalink sandbox diff A B

Programs that use a device's queues or registers as they must not are reported at the end, and
the exit code is 1 then, unless CMD failed. Registers are looked at every 20 to 100 us: of two
stores to the same doorbell in between, the device hears of the second. With --trap each store stops the
program until the device has seen it, and memory as it then is: so a record that is written after
its doorbell is noticed. A store costs some 100 us instead of nothing, and each signal, new thread
and new process some too. It needs amd64 and ptrace(2): neither a debugger nor strace can be used
beside it. It knows the stores that compilers make of assignments, up to SSE.

It needs Linux 5.9 with seccomp, on amd64 or arm64, and works best from 5.19 on: before, a
signal may have a system call carried out twice. The exit code is that of CMD, or 128 and the number of
the signal that ended it; what CMD leaves running is killed. A process must not close
its devices and open other files at numbers from 900 on. It is a tool for tests, and no jail.`
}

// hostVariable says, in the environment of a process, on which host it runs.
const hostVariable = "GOVERBS_HOST"
