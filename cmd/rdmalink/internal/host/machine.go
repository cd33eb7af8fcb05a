// Package host is the interface of rdmalink's commands to the machine: RDMA
// devices, network devices and the kernel's file systems.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"strings"

	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// Machine is the interface of the commands to the machine: the kernel, by each of
// its interfaces, and its file systems. Tests use fakes.
type Machine struct {
	RDMA      *netlinkrdma.Client
	Net       addlink.Netdevs
	Route     rtnetlink.Route
	Open      func(device string) (*uverbs.Device, error)
	OpenCM    func() error
	Connect   func(ctx context.Context, addr netip.Addr) (device string, err error) // to an address of this machine
	Proc, Sys Tree
	Modules   Tree // /lib/modules
}

// This returns the machine that the process runs on.
func This() Machine {
	return Machine{RDMA: &netlinkrdma.Client{Kernel: new(netlinkrdma.Socket)}, Net: addlink.Kernel, Route: rtnetlink.Kernel, Open: uverbs.Open, OpenCM: openCM, Connect: connect,
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

// connect makes a connection to addr over rdma_cm, from this process to itself, and ends it. device is the
// device that rdma_cm chose, and empty if it is not known. connect returns when ctx ends, also if the
// kernel does not finish a command.
func connect(ctx context.Context, addr netip.Addr) (device string, err error) {
	names, done := make(chan string, 1), make(chan error, 1)
	go func() {
		dev, _, err := rdmacm.OpenDevice(addr)
		if err == nil {
			names <- dev.Info().Name
			err = dev.Close()
		}
		if err == nil {
			err = connectSelf(ctx, addr)
		}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case device = <-names:
	default:
	}
	return device, err
}

func connectSelf(ctx context.Context, addr netip.Addr) error {
	l, err := rdmacm.Listen(ctx, netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return err
	}
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		defer close(accepted)
		if c, err := l.Accept(ctx); err == nil {
			accepted <- c
		}
	}()
	c, err := rdmacm.Dial(ctx, l.Addr().String())
	if err == nil {
		err = c.Close()
	}
	err = errors.Join(err, l.Close())
	if c := <-accepted; c != nil {
		err = errors.Join(err, c.Close())
	}
	return err
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
