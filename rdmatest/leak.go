package rdmatest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Left lists what was not closed: objects of the devices and of the connection manager,
// openings of both, and memory that is registered.
func (f *Fabric) Left() (left []string) {
	for _, d := range f.devices {
		for _, k := range d.verbs.Openings() {
			for _, leak := range k.Leaks() {
				left = append(left, fmt.Sprintf("%s: %s", d.name, leak))
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(left, f.manager.left()...)
}

// Objects lists the objects that programs have on the device. It leaves out the pages of
// registers that a provider keeps as long as its device is open.
func (d *Device) Objects() (objects []string) {
	for _, k := range d.verbs.Openings() {
		objects = append(objects, k.Alive()...)
	}
	return slices.DeleteFunc(objects, func(name string) bool { return strings.HasPrefix(name, "UAR ") })
}

// nothingLeft waits for what is freed in the background. It also tells what was done wrong
// with the queues and registers of a device, by a provider.
func (f *Fabric) nothingLeft() {
	for _, d := range f.devices {
		for _, v := range d.verbs.Violations() {
			f.t.Errorf("rdmatest: %s: %s", d.name, v)
		}
	}
	if f.endless {
		return
	}
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = f.Left(); len(left) == 0 {
			return
		}
	}
	f.t.Errorf("rdmatest: left at the end of the test: %q", left)
}
