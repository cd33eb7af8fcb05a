// Package host is the interface of rdmalink's commands to the machine: RDMA
// devices, network devices and the kernel's file systems.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// Machine is the interface of the commands to the machine: the kernel, by each of
// its interfaces, and its file systems. Tests use fakes.
type Machine struct {
	RDMA      *netlinkrdma.Client
	Net       Netdevs
	Route     rtnetlink.Route
	Open      func(device string) (*uverbs.Device, error)
	OpenCM    func() error
	Proc, Sys Tree
	Modules   Tree // /lib/modules
}

// This returns the machine that the process runs on.
func This() Machine {
	return Machine{RDMA: &netlinkrdma.Client{}, Net: kernelNetdevs{}, Route: rtnetlink.Kernel, Open: uverbs.Open, OpenCM: openCM,
		Proc: Tree{os.DirFS("/proc")}, Sys: Tree{os.DirFS("/sys")}, Modules: Tree{os.DirFS("/lib/modules")}}
}

// openCM opens the connection manager's channel, the first step of every
// connection.
func openCM() error {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	return ch.Close()
}

// ForDevices calls f for the device of this name, or for all, and leaves out
// those of all that went away meanwhile.
func (m *Machine) ForDevices(name string, f func(d netlinkrdma.Device) error) error {
	if name != "" {
		d, err := m.RDMA.DeviceByName(name)
		if err != nil {
			return err
		}
		return Named(d, f(d))
	}
	devices, err := m.RDMA.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := f(d); err != nil && !errors.Is(err, netlinkrdma.ErrNotFound) {
			return Named(d, err)
		}
	}
	return nil
}

// deviceError is an error of netlinkrdma, which knows only the number of the
// device, with the name in its place.
type deviceError struct {
	error
	device netlinkrdma.Device
}

func Named(d netlinkrdma.Device, err error) error {
	if err == nil {
		return nil
	}
	return deviceError{err, d}
}

func (e deviceError) Error() string {
	return strings.Replace(e.error.Error(), fmt.Sprintf("RDMA device %d", e.device.Index), e.device.Name, 1)
}

func (e deviceError) Unwrap() error { return e.error }

// Tree reads a tree of attributes. An attribute that can't be read is empty.
type Tree struct{ fs.FS }

func (s Tree) Has(elem ...string) bool {
	_, err := fs.Stat(s.FS, path.Join(elem...))
	return err == nil
}

func (s Tree) Text(elem ...string) string {
	b, err := fs.ReadFile(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// List returns the names in a directory.
func (s Tree) List(dir string) (names []string) {
	entries, _ := fs.ReadDir(s.FS, dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Link returns the last part of a symbolic link's target.
func (s Tree) Link(elem ...string) string {
	to, err := fs.ReadLink(s.FS, path.Join(elem...))
	if err != nil {
		return ""
	}
	return path.Base(to)
}
