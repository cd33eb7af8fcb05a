//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// shortenSlices has the scheduler end time slices by a timer of their own, after
// 0.3 ms. At a tick of 4 ms, two processes that poll for each other on one CPU take
// 8 ms a round trip, and most of a test's time.
func shortenSlices() error {
	const dir = "/sys/kernel/debug"
	if err := (mount{"debugfs", dir, "debugfs", 0, ""}).do(); err != nil {
		return err
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := tune(dir+"/sched/features", "HRTICK"); err != nil {
		return err
	}
	err := tune(dir+"/sched/base_slice_ns", "300000")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Before Linux 6.6 a slice is the latency shared out among those who run.
	if err := tune(dir+"/sched/min_granularity_ns", "300000"); err != nil {
		return err
	}
	return tune(dir+"/sched/latency_ns", "600000")
}

// tune writes a setting, which has to be there: debugfs makes no files.
func tune(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set up the guest's scheduler: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("set up the guest's scheduler: %w", err)
	}
	return nil
}
