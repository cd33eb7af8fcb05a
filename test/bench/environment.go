//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
	"github.com/goverbs/goverbs/test/rig"
)

// An environment is an environment that a suite can run in.
type environment struct {
	name, series string // an empty series means that there is no guest
	icount       bool   // whether its clock counts instructions
	cpus         int    // 0 means 1
}

var (
	qemu   = environment{name: "qemu 6.12", series: "6.12", cpus: 2}
	icount = environment{name: "qemu icount 6.12", series: "6.12", icount: true}
	oneCPU = environment{name: "qemu 6.12, one CPU", series: "6.12"} // crashes less often than with two
	uml    = environment{name: "uml 6.12", series: rig.UML}
	host   = environment{name: "this machine"}
)

// A trial is a suite in an environment. The check runs several in one boot.
type trial struct {
	suite       string // names, separated by spaces
	environment environment
	mem         int          // MiB
	checked     *environment // the environment in which check runs it, or nil
}

// trials lists all trials. Times are measured under User Mode Linux, at native speed, because QEMU
// emulates the CPU. Suites that don't need RDMA in the kernel need no guest. If one CPU is enough for
// both ends, instructions are measured in a QEMU that counts them, including those of the kernel. Suites
// that need two CPUs run in an ordinary QEMU. System calls are counted where the host does not affect
// scheduling. For some suites, check only verifies that they run and don't allocate. It runs them where
// one CPU is enough.
var trials = []trial{
	{suite: "ring", environment: uml, mem: 1024},
	{suite: "ring", environment: icount, mem: 2048, checked: &icount},
	{suite: "mlx5", environment: host},
	{suite: "mlx5", environment: icount, mem: 2048, checked: &icount},
	{suite: "efa", environment: icount, mem: 2048, checked: &icount},
	{suite: "dc", environment: icount, mem: 2048, checked: &icount},
	{suite: "calls", environment: icount, mem: 2048, checked: &icount},
	{suite: "perf", environment: icount, mem: 2048, checked: &icount},
	{suite: "perf", environment: qemu, mem: 2048, checked: &oneCPU},
	{suite: "scale", environment: icount, mem: 6144, checked: &icount},
	{suite: "stream", environment: icount, mem: 2048, checked: &icount},
	{suite: "devices", environment: host},
	{suite: "devices", environment: icount, mem: 2048, checked: &icount},
}

func suiteNames() []string {
	var names []string
	for _, t := range trials {
		if len(names) == 0 || names[len(names)-1] != t.suite {
			names = append(names, t.suite)
		}
	}
	return names
}

// limit is the time after which a trial is considered hung.
const limit = time.Hour

// exitFault is bin/vm's exit code when the emulator crashed while it ran the command.
const exitFault = 126

func crashed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitFault
}

// try runs a trial. It returns the samples, and the names of the measurements without samples. An
// error means that the environment failed.
func try(ctx context.Context, t trial, o options) (samples []result.Sample, missing []string, err error) {
	args := []string{"run", "-timeout", limit.String(), "-mem", strconv.Itoa(t.mem), "-kernel", t.environment.series}
	guest := []string{"--", "bin/bench/guest", "-environment", t.environment.name, "-runs", strconv.Itoa(o.runs)}
	if t.environment.icount {
		args, guest = append(args, "-icount"), append(guest, "-icount")
	}
	if t.environment.cpus > 1 {
		args = append(args, "-cpus", strconv.Itoa(t.environment.cpus))
	}
	if o.check {
		guest = append(guest, "-check")
	}
	words := slices.Concat([]string{"bin/vm"}, args, guest, strings.Fields(t.suite))
	if t.environment.series == "" {
		words = append(guest[1:], strings.Fields(t.suite)...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(os.Stderr, &said)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	var bad error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var s result.Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			bad = fmt.Errorf("output %q: %w", lines.Text(), err)
			continue
		}
		samples = append(samples, s)
	}
	err = cmd.Wait()
	for line := range strings.Lines(said.String()) {
		if what, ok := strings.CutPrefix(line, result.Missing); ok {
			missing = append(missing, strings.TrimSpace(what))
		}
	}
	if err != nil && (len(missing) == 0 || crashed(err)) {
		return samples, missing, fmt.Errorf("%s in %s: %w", t.suite, t.environment.name, err)
	}
	return samples, missing, bad
}
