package rounds

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/goverbs/goverbs/test/bench/ring/clock"
)

// Main is the main function of an implementation. It calls open with the device and the address of the
// command line, measures the rings and prints samples.
func Main(impl string, open func(dev string, addr netip.Addr, loop bool) (Rings, error)) {
	MainLoops(impl, func(dev string, addr netip.Addr, loop string) (Rings, error) { return open(dev, addr, loop != "") })
}

// MainLoops is Main of an implementation that has loops of several kinds. With -loop, loop is the name of the driver.
func MainLoops(impl string, open func(dev string, addr netip.Addr, loop string) (Rings, error)) {
	o := options{impl: impl}
	switch err := o.parse(os.Args[1:]); {
	case err == flag.ErrHelp:
		return
	case err != nil:
		os.Exit(2)
	}
	runtime.LockOSThread()
	loop := ""
	if o.loop {
		loop = o.driver
	}
	rings, err := open(o.dev, o.addr, loop)
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
	still, loop       bool
}

func (o *options) parse(args []string) error {
	fs := flag.NewFlagSet("ring", flag.ContinueOnError)
	fs.StringVar(&o.driver, "driver", "", "`name` of the driver, for the samples: siw, rxe, mlx5, mlx5-raw, mlx5-dc or efa")
	fs.StringVar(&o.dev, "dev", "", "`name` of the device")
	fs.TextVar(&o.addr, "addr", netip.Addr{}, "IPv4 `address` of its interface")
	fs.IntVar(&o.rounds, "n", 100, "rounds")
	fs.BoolVar(&o.still, "still", false, "the program runs in the sandbox: stop that while something is measured")
	fs.BoolVar(&o.loop, "loop", false, "measure what the device loops back without a connection: Ethernet frames on raw packet queue pairs, datagrams on EFA, or what an initiator of DC sends if the driver is mlx5-dc")
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
		var err error
		if device, err = supervisor(); err != nil {
			return err
		}
	}
	kinds := Kinds
	if o.loop && o.driver != DC {
		kinds = Write // only the kinds below Write
	}
	builds := strings.HasPrefix(o.driver, "mlx5") // other providers make a list for PostSend
	if err := o.measure(&meter{rings: rings, kinds: kinds, builds: builds, clock: clock.Ticks, device: device}, o.rounds, tick, to); err != nil {
		return err
	}
	return o.measure(&meter{rings: rings, kinds: kinds, builds: builds, clock: mallocs, device: device}, allocRounds, unit{name: "allocs", tick: 1, suffix: "_allocs"}, to)
}

func mallocs() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Mallocs)
}
