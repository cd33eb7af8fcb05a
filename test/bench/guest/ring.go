//go:build linux

package main

import (
	"slices"
	"strconv"

	"github.com/goverbs/goverbs/test/bench/result"
)

// ring runs the programs that fill and empty queues, for each driver.
func ring(b *bench) error {
	for _, driver := range drivers {
		l, err := b.link(driver)
		if err != nil {
			return err
		}
		args := b.ringArgs(driver, l.name, l.addr)
		err = b.interleave(
			b.ringProgram("rdma-core", "c-ring", args...),
			b.ringProgram("goverbs", "ring", args...),
			b.ringProgram("cgo", "cgo", args...))
		if err != nil {
			return err
		}
	}
	return nil
}

// mlx5 runs the programs on a device in software, which rdma-core's provider can use too.
func mlx5(b *bench) error {
	in := func(driver, impl, program string, more ...string) entrant {
		return b.sandboxed("mlx5", driver, impl, program, more...)
	}
	err := b.interleave(in("mlx5", "rdma-core", "c-ring"), in("mlx5", "goverbs", "ring"), in("mlx5", "cgo", "cgo"))
	if err != nil {
		return err
	}
	return b.interleave(in(rawFrames, "rdma-core", "c-ring", "-loop"), in(rawFrames, "goverbs", "ring", "-loop"))
}

// efa is mlx5 on EFA, whose queue pairs send datagrams. rdma-core has another interface for all that datagrams lack.
func efa(b *bench) error {
	return b.interleave(b.sandboxed("efa", "efa", "rdma-core", "c-ring", "-loop"), b.sandboxed("efa", "efa", "goverbs", "ring", "-loop"))
}

// dc is mlx5 with an initiator and a target of DC. rdma-core has no ibv_post_send for these, so its posts are built.
func dc(b *bench) error {
	return b.interleave(b.sandboxed("mlx5", "mlx5-dc", "rdma-core", "c-ring", "-loop"), b.sandboxed("mlx5", "mlx5-dc", "goverbs", "ring", "-loop"))
}

// sandboxed is an entrant with a device in software.
func (b *bench) sandboxed(device, driver, impl, program string, more ...string) entrant {
	args := append([]string{"sandbox", "-d", device, "--", b.program(program), "-still"}, b.ringArgs(driver, device+"_0", "198.51.100.1")...)
	return b.printer(impl, "rdmalink", append(args, more...)...)
}

// rawFrames is the driver in the samples of frames on raw packet queue pairs.
const rawFrames = "mlx5-raw"

func (b *bench) ringArgs(driver, dev, addr string) []string {
	rounds, clock := 200, "ns"
	switch {
	case b.icount && driver != "siw" && driver != "rxe":
		rounds, clock = 5, "insn" // the device in software executes a hundred times as many instructions
	case b.icount:
		rounds, clock = 21, "insn" // all rounds take the same number
	}
	b.progress("%s, %d rounds", driver, rounds)
	return []string{"-driver", driver, "-dev", dev, "-addr", addr, "-n", strconv.Itoa(rounds), "-clock", clock}
}

// ringProgram returns an entrant for a ring program. It leaves out the times of system calls, because
// environments with native speed don't run a real kernel.
func (b *bench) ringProgram(impl, program string, args ...string) entrant {
	e := b.printer(impl, program, args...)
	return entrant{impl, func() ([]result.Sample, error) {
		samples, err := e.run()
		return slices.DeleteFunc(samples, func(s result.Sample) bool {
			return s.Measure == "arm" && s.Driver == "rxe" && s.Unit == "ns"
		}), err
	}}
}
