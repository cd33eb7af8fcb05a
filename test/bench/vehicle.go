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

// A vehicle is an environment that a suite can run in.
type vehicle struct {
	name, series string // an empty series means that there is no guest
	icount       bool   // whether its clock counts instructions
	cpus         int    // 0 means 1
}

var (
	qemu   = vehicle{name: "qemu 6.12", series: "6.12", cpus: 2}
	icount = vehicle{name: "qemu icount 6.12", series: "6.12", icount: true}
	oneCPU = vehicle{name: "qemu 6.12, one CPU", series: "6.12"} // crashes less often than with two
	uml    = vehicle{name: "uml 6.12", series: rig.UML}
	host   = vehicle{name: "this machine"}
)

// A trip is a suite in a vehicle. The check runs several in one boot.
type trip struct {
	suite   string // names, separated by spaces
	vehicle vehicle
	mem     int      // MiB
	checked *vehicle // the vehicle in which check runs it, or nil
}

// trips lists all trips. Times are measured under User Mode Linux, at native speed, because QEMU
// emulates the CPU. Suites that don't need RDMA in the kernel need no guest. If one CPU is enough for
// both ends, instructions are measured in a QEMU that counts them, including those of the kernel. Suites
// that need two CPUs run in an ordinary QEMU. System calls are counted where the host does not affect
// scheduling. For some suites, check only verifies that they run and don't allocate. It runs them where
// one CPU is enough.
var trips = []trip{
	{suite: "ring", vehicle: uml, mem: 1024},
	{suite: "ring", vehicle: icount, mem: 2048, checked: &icount},
	{suite: "mlx5", vehicle: host},
	{suite: "mlx5", vehicle: icount, mem: 2048, checked: &icount},
	{suite: "calls", vehicle: icount, mem: 2048, checked: &icount},
	{suite: "perf", vehicle: icount, mem: 2048, checked: &icount},
	{suite: "perf", vehicle: qemu, mem: 2048, checked: &oneCPU},
	{suite: "scale", vehicle: icount, mem: 6144, checked: &icount},
	{suite: "stream", vehicle: icount, mem: 2048, checked: &icount},
	{suite: "stream", vehicle: qemu, mem: 2048, checked: &oneCPU},
	{suite: "cli", vehicle: qemu, mem: 4096, checked: &oneCPU},
}

func suiteNames() []string {
	var names []string
	for _, t := range trips {
		if len(names) == 0 || names[len(names)-1] != t.suite {
			names = append(names, t.suite)
		}
	}
	return names
}

// limit is the time after which a trip is considered hung.
const limit = time.Hour

// exitFault is bin/vm's exit code when the emulator crashed while it ran the command.
const exitFault = 126

func broke(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitFault
}

// travel runs a trip. It returns the samples, and the names of the measurements without samples. An
// error means that the vehicle failed.
func travel(ctx context.Context, t trip, o options) (samples []result.Sample, missing []string, err error) {
	args := []string{"run", "-timeout", limit.String(), "-mem", strconv.Itoa(t.mem), "-kernel", t.vehicle.series}
	guest := []string{"--", "bin/bench/guest", "-vehicle", t.vehicle.name, "-runs", strconv.Itoa(o.runs)}
	if t.vehicle.icount {
		args, guest = append(args, "-icount"), append(guest, "-icount")
	}
	if t.vehicle.cpus > 1 {
		args = append(args, "-cpus", strconv.Itoa(t.vehicle.cpus))
	}
	if o.quick {
		guest = append(guest, "-quick")
	}
	if o.check {
		guest = append(guest, "-check")
	}
	words := slices.Concat([]string{"bin/vm"}, args, guest, strings.Fields(t.suite))
	if t.vehicle.series == "" {
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
	if err != nil && (len(missing) == 0 || broke(err)) {
		return samples, missing, fmt.Errorf("%s in %s: %w", t.suite, t.vehicle.name, err)
	}
	return samples, missing, bad
}
