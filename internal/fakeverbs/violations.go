package fakeverbs

import (
	"fmt"
	"sync"
)

// violations are what user space did that the device does not bear, in words. All openings
// of a device share them. A kernel can't tell of these, since they are between user space
// and the device.
type violations struct {
	mu    sync.Mutex
	words []string
}

// most keeps a program that goes wrong for ever from filling the memory.
const most = 1000

func (v *violations) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.words) < most {
		v.words = append(v.words, fmt.Sprintf(format, args...))
	}
}

// Violations returns what user space did wrong with the device's queues and registers so
// far, oldest first.
func (d *Device) Violations() []string {
	d.violations.mu.Lock()
	defer d.violations.mu.Unlock()
	return append([]string(nil), d.violations.words...)
}

// Violations returns those of the device.
func (k *Kernel) Violations() []string { return k.Device.Violations() }
