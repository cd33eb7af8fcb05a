package fakefabric

import (
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// device is an opening of the device. A goroutine of its own carries what its queue pairs
// send.
type device struct {
	*fakeverbs.Kernel
	f    *Fabric
	rang chan struct{}
	stop chan struct{}
	idle sync.WaitGroup
	lent map[uint64][]byte // guarded by the fabric's lock
}

func newDevice(f *Fabric, k *fakeverbs.Kernel) *device {
	d := &device{Kernel: k, f: f, rang: make(chan struct{}, 1), stop: make(chan struct{}), lent: make(map[uint64][]byte)}
	d.idle.Go(d.run)
	return d
}

// Lend is of ioctl.File, as all that follows.
func (d *device) Lend(addr uint64, b []byte) {
	d.Kernel.Lend(addr, b)
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.lent[addr] = b
}

func (d *device) Return(addr uint64) {
	d.Kernel.Return(addr)
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	delete(d.lent, addr)
}

func (d *device) Command(wire []byte) error {
	defer d.ring()
	return d.Kernel.Command(wire)
}

func (d *device) Ioctl(r *ioctl.Request) error {
	defer d.ring()
	return d.Kernel.Ioctl(r)
}

func (d *device) Close() error {
	close(d.stop)
	d.idle.Wait()
	return d.Kernel.Close()
}

func (d *device) ring() {
	select {
	case d.rang <- struct{}{}:
	default:
	}
}

func (d *device) run() {
	for {
		select {
		case <-d.rang:
		case <-d.stop:
			return
		}
		for d.carryAll() {
		}
	}
}

// carryAll carries at most one message of each queue pair, and reports whether there was
// one.
func (d *device) carryAll() (some bool) {
	for _, qp := range d.QueuePairs() {
		if qp.State() == abi.IB_QPS_RTS && d.carry(qp) {
			some = true
		}
	}
	return some
}
