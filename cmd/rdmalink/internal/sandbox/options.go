package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// options is the command line.
type options struct {
	kind    string
	profile string
	hosts   int
	record  string // file
	trap    bool
	fabric  string // file or generator of an InfiniBand subnet; empty: none
	noSM    bool
	netns   bool
	seed    int
	faults  []string     // lines
	control string       // socket for more
	wire    []netip.Addr // of the hosts, on the machine's network; nil: they are not on it
	wireKey []byte       // nil: the wire is open
	command []string
}

// kinds lists the devices that have models. mlx5-ib is mlx5 on InfiniBand. mlx5-old is mlx5 with its first kernels:
// registers that exist from the start, and completions of version 0. erdma-old is erdma as its first kernel could have
// it: no atomics, and one doorbell for all sends of a process. erdma-roce is erdma on RoCE v2. efa-old is the first
// generation of efa with Linux 6.1: it has no RDMA WRITE, its CQs have two rings each, and it limits how many bytes are
// posted per doorbell.
var kinds = []string{"rxe", "siw", "erdma", "erdma-old", "erdma-roce", "mlx5", "mlx5-ib", "mlx5-old", "efa", "efa-old"}

// withRegisters lists the devices whose doorbells are stores by the program.
var withRegisters = []string{"erdma", "erdma-old", "erdma-roce", "mlx5", "mlx5-ib", "mlx5-old", "efa", "efa-old"}

const mostHosts = 64

// AddressFile is a file among a model's attributes in sysfs, in class/infiniband. It holds the address by which rdma_cm
// finds the device, because there is no network device.
const AddressFile = "rdmalink_sandbox"

var optionTable = cli.Options(
	cli.NewRow('d', "device", "KIND", "the device of each host: "+strings.Join(kinds, ", ")+" (default rxe)", setKind),
	cli.NewRow('p', "profile", "MACHINE", "give each host the devices of a machine: "+strings.Join(profileNames(), ", ")+", or a file of NCCL's", func(o *options, value string) error { o.profile = value; return nil }),
	cli.NewRow('n', "hosts", "N", "how many hosts there are (default 1)", cli.Number("hosts", 1, mostHosts, func(o *options) *int { return &o.hosts })),
	cli.NewRow('r', "record", "FILE", "record the traffic between programs and device", func(o *options, value string) error { o.record = value; return nil }),
	cli.NewRow('f', "fabric", "TOPOLOGY", "InfiniBand subnet of hosts with verbs and management datagrams", func(o *options, value string) error { o.fabric = value; return nil }),
	cli.NewRow(0, "no-sm", "", "leave the subnet of --fabric to a subnet manager that CMD runs", cli.Flag(func(o *options) *bool { return &o.noSM })),
	cli.NewRow(0, "netns", "", "run CMD in a network namespace with an interface that has the addresses of the hosts", cli.Flag(func(o *options) *bool { return &o.netns })),
	cli.NewRow(0, "wire", "ADDR[,ADDR...]", "reach RDMA devices outside: host K has the K-th address, which is one of this machine", readWire),
	cli.NewRow(0, "wire-key", "FILE", "take datagrams only from sandboxes that have the key in FILE too", readWireKey),
	cli.NewRow(0, "fault", "LINE", "make a fault happen; --fault may be repeated", func(o *options, value string) error { o.faults = append(o.faults, value); return nil }),
	cli.NewRow(0, "faults", "FILE", "make the faults of a file happen, a line each", readFaults),
	cli.NewRow(0, "control", "SOCKET", "take lines of faults at a Unix socket while CMD runs", func(o *options, value string) error { o.control = value; return nil }),
	cli.NewRow(0, "seed", "N", "seed of the random choices of loss and order", cli.Number("seed", 0, math.MaxInt64, func(o *options) *int { return &o.seed })),
	cli.NewRow('t', "trap", "", strings.Join(withRegisters, ", ")+": stop programs at each store to a register", cli.Flag(func(o *options) *bool { return &o.trap })),
)

// readWire reads a list of addresses.
func readWire(o *options, list string) error {
	for text := range strings.SplitSeq(list, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
			return cli.Expected(text, "ADDR, the address of an interface without a zone, such as 192.0.2.1")
		}
		o.wire = append(o.wire, a.Unmap())
	}
	return nil
}

// A key for --wire has a size, in bytes.
const (
	leastKey = 16
	mostKey  = 4096
)

func readWireKey(o *options, name string) error {
	key, err := readShort(name, mostKey, "a key")
	if err != nil {
		return err
	}
	key = bytes.TrimRight(key, "\r\n")
	if len(key) < leastKey {
		return fmt.Errorf("%s: a key of %d bytes; it needs at least %d that nobody can guess (head -c 32 /dev/urandom | base64)", name, len(key), leastKey)
	}
	o.wireKey = key
	return nil
}

// readShort returns a file of at most some bytes.
func readShort(name string, most int64, is string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: more than %d bytes of %s", name, most, is)
	}
	return text, err
}

// onWire lists the devices that reach others outside.
var onWire = []string{"rxe", "mlx5", "mlx5-old"}

// mostFaults is how long a file of faults may be, in bytes.
const mostFaults = 1 << 20

func readFaults(o *options, name string) error {
	text, err := readShort(name, mostFaults, "faults")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			o.faults = append(o.faults, line)
		}
	}
	return nil
}

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
	case o.wireKey != nil && o.wire == nil:
		return o, cli.UsageError{Text: "--wire-key goes with --wire"}
	case o.wire != nil && (o.fabric != "" || o.profile != "" || o.netns):
		return o, cli.UsageError{Text: "--wire goes without --fabric, --profile and --netns"}
	case o.wire != nil && o.kind != "" && !slices.Contains(onWire, o.kind):
		return o, cli.UsageError{Text: "--wire goes with --device " + strings.Join(onWire, " or ") + ": the transport of other devices is not RoCE v2 over UDP, or is not known in detail"}
	case o.wire != nil && o.hosts != 0 && o.hosts != len(o.wire):
		return o, cli.UsageError{Text: fmt.Sprintf("--hosts %d, but --wire has %d addresses: each host needs one", o.hosts, len(o.wire))}
	case o.profile != "" && (o.kind != "" || o.fabric != "" || o.trap):
		return o, cli.UsageError{Text: "--profile, which names the devices, goes without --device, --fabric and --trap"}
	case o.fabric == "":
		o.kind, o.hosts = cmp.Or(o.kind, "rxe"), max(o.hosts, len(o.wire), 1)
	case o.kind != "" || o.hosts != 0 || o.record != "" || o.trap || o.netns:
		return o, cli.UsageError{Text: "--fabric goes without --device, --hosts, --netns, --record and --trap: its hosts are the adapters of the topology, and their devices are mlx5-ib"}
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

mlx5-ib is mlx5 on InfiniBand, and erdma-roce is erdma on RoCE v2 in place of iWARP. mlx5-old,
erdma-old and efa-old lack what the first kernels and devices lacked. efa delivers and completes
in any order, except in recordings.

Each host has one device. Host K has the address 198.51.100.K, for rdma_cm; TCP is the
machine's own. A process runs on host 1 unless ` + hostVariable + ` in its environment names another host:

  $ rdmalink sandbox --hosts 2 -- sh -c 'rping -s & sleep 1; ` + hostVariable + `=2 rping -c -a 198.51.100.1 -C 3'

--profile gives each host the RDMA devices of a machine, with its PCI tree, GPUs and NUMA nodes in
sysfs. A file is what NCCL writes with NCCL_TOPO_DUMP_FILE. Device J of host K has the address
198.51.(100+J).K, from J = 0 on.

  $ rdmalink sandbox --profile dgx-h100 --hosts 2 -- sh -c 'ibv_devinfo; readlink /sys/class/infiniband/mlx5_3'

--wire puts the devices of rxe, mlx5 and mlx5-old on the machine's network. They exchange packets of RoCE v2,
over UDP port 4791, with other sandboxes with --wire, in other containers and on other machines, and with real
devices such as Linux's rxe. Each host has one of the machine's addresses. Nothing listens at others:

  hostA$ rdmalink sandbox --wire 192.0.2.1 -- ibv_rc_pingpong -g 1
  hostB$ rdmalink sandbox --wire 192.0.2.2 -- ibv_rc_pingpong -g 1 192.0.2.1

The wire is open: whoever can send UDP packets to the address can send to the programs' queue pairs.
With --wire-key, only sandboxes that have the same key can. Real devices have no such key:

  $ (umask 077; head -c 32 /dev/urandom | base64 > KEY)
  $ rdmalink sandbox --wire 192.0.2.1 --wire-key KEY -- ibv_rc_pingpong -g 1

--fault makes the network, a device or a call fail. LINE is one of these, after an optional time from
the start of CMD. HOST is a number:

  latency TIME   bandwidth BYTES   loss PART   reordering PART   partition HOST HOST [off]
  pause [off]   stall-receives HOST [off]   link HOST up|down   remove HOST
  address HOST add|remove ADDRESS
  fail HOST CALL ERRNO [SKIP]   fail-send HOST STATUS [SKIP]   fail-recv HOST STATUS [SKIP]
  cut-send HOST BYTES [SKIP]   fail-cm COMMAND ERRNO   hold-cm COMMAND

  $ rdmalink sandbox --fault 'loss 0.05' --fault '2s link 1 down' --seed 7 -- CMD
  $ rdmalink sandbox --hosts 2 --control SOCKET -- CMD & rdmalink sandbox fault SOCKET partition 1 2

Some programs, such as libfabric and Open MPI, look for a network interface with the device's
address. --netns gives CMD a network namespace with such an interface and without the machine's network.
It needs root, or a kernel that lets users create namespaces:

  $ rdmalink sandbox --netns -d siw -- sh -c 'fi_pingpong -p verbs -e msg & sleep 1; fi_pingpong -p verbs -e msg 127.0.0.1'

With --fabric, hosts are the adapters of an InfiniBand subnet in software. They have umad and issm
nodes, for programs such as those of infiniband-diags, and a device mlx5-ib. TOPOLOGY is a file in the
format of ibnetdiscover, fat-tree:RADIXxLEVELS, or dragonfly:GROUPSxSWITCHESxHOSTS. A process runs on the
first adapter unless ` + hostVariable + ` has the name of a node, or the number of an adapter. The subnet
has a subnet manager on its first adapter, unless --no-sm leaves it to opensm:

  $ rdmalink sandbox --fabric fat-tree:4x2 -- ibnetdiscover
  $ rdmalink sandbox --fabric fat-tree:4x2 -- sh -c '` + hostVariable + `=h8 ibping -S & sleep 1; ibping -c 3 14'
  $ rdmalink sandbox --fabric net.topo --no-sm -- sh -c 'opensm & sleep 5; ibnetdiscover'

` + optionTable.Help() + `
A recording contains the driver-specific bytes of calls and, for erdma, mlx5 and efa, all queue entries,
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
