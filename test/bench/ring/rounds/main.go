package rounds

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"

	"github.com/goverbs/goverbs/test/bench/ring/clock"
)

// Main is the main function of an implementation. It calls open with the device and the address of the
// command line, measures the rings and prints samples.
func Main(impl string, open func(dev string, addr netip.Addr, raw bool) (Rings, error)) {
	o := options{impl: impl}
	switch err := o.parse(os.Args[1:]); {
	case err == flag.ErrHelp:
		return
	case err != nil:
		os.Exit(2)
	}
	runtime.LockOSThread()
	rings, err := open(o.dev, o.addr, o.raw)
	if err == nil {
		err = o.run(rings, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s on %s: %v\n", impl, o.dev, err)
		os.Exit(1)
	}
}

type options struct {
	impl, driver, dev string
	addr              netip.Addr
	rounds            int
	instructions      bool
	still, raw        bool
}

func (o *options) parse(args []string) error {
	fs := flag.NewFlagSet("ring", flag.ContinueOnError)
	fs.StringVar(&o.driver, "driver", "", "`name` of the driver, for the samples: siw, rxe or mlx5")
	fs.StringVar(&o.dev, "dev", "", "`name` of the device")
	fs.TextVar(&o.addr, "addr", netip.Addr{}, "IPv4 `address` of its interface")
	fs.IntVar(&o.rounds, "n", 100, "rounds")
	fs.BoolVar(&o.still, "still", false, "the parent is the device: stop it while something is measured")
	fs.BoolVar(&o.raw, "raw", false, "measure Ethernet frames on raw packet queue pairs, which the device loops back")
	fs.Func("clock", "what the processor's clock counts: `ns|insn` (default ns)", func(s string) error {
		o.instructions = s == "insn"
		if s != "ns" && s != "insn" {
			return fmt.Errorf("expected ns or insn")
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.driver == "" || o.dev == "" || !o.addr.Is4() || o.rounds < 1 || fs.NArg() > 0 {
		fs.Usage()
		return fmt.Errorf("incomplete")
	}
	return nil
}

// allocRounds is the number of rounds for counting allocations, which hardly vary.
const allocRounds = 5

func (o *options) run(rings Rings, to io.Writer) error {
	tick := unit{name: "instructions", tick: 1}
	if !o.instructions {
		tick = unit{name: "ns", tick: clock.NsPerTick()}
	}
	var device *process
	if o.still {
		device = parent()
	}
	kinds := Kinds
	if o.raw {
		kinds = Write // only the kinds below Write
	}
	if err := o.measure(&meter{rings: rings, kinds: kinds, clock: clock.Ticks, device: device}, o.rounds, tick, to); err != nil {
		return err
	}
	return o.measure(&meter{rings: rings, kinds: kinds, clock: mallocs, device: device}, allocRounds, unit{name: "allocs", tick: 1, suffix: "_allocs"}, to)
}

func mallocs() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Mallocs)
}
