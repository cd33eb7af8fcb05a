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

// kinds are the devices that there are models of. mlx5-ib is mlx5 on InfiniBand. mlx5-old is mlx5 with the first kernels that
// had it: registers that are there from the start, and completions of version 0.
var kinds = []string{"rxe", "siw", "erdma", "mlx5", "mlx5-ib", "mlx5-old"}

// withRegisters are those that programs ring by a store.
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
