package cm

import (
	"errors"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// device is an open device with the objects that its connections share.
type device struct {
	*uverbs.Device
	pd      *uverbs.PD
	channel *uverbs.CompChannel
	idle    *uverbs.CQ // of queue pairs that are posted nothing
	made    closers
}

// devices are those that the connections run over.
type devices struct {
	mu   sync.Mutex
	open map[uint32]*device
}

// of is the device that the connection manager chose for an ID.
func (d *devices) of(id *rdmacm.ID) (*device, error) {
	addr, err := id.QueryAddr()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.open[addr.DeviceIndex]; known != nil {
		return known, nil
	}
	dev, err := uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID)
	if err != nil {
		return nil, err
	}
	opened := &device{Device: dev}
	if err := opened.prepare(); err != nil {
		return nil, errors.Join(err, opened.made.close())
	}
	if d.open == nil {
		d.open = make(map[uint32]*device)
	}
	d.open[addr.DeviceIndex] = opened
	return opened, nil
}

func (d *device) prepare() (err error) {
	d.made.add(d.Device)
	if d.pd, err = d.AllocPD(); err != nil {
		return err
	}
	d.made.add(d.pd)
	if d.channel, err = d.CreateCompChannel(); err != nil {
		return err
	}
	d.made.add(d.channel)
	if d.idle, err = d.CreateCQ(1, nil); err != nil {
		return err
	}
	d.made.add(d.idle)
	return nil
}

func (d *devices) close() (err error) {
	for _, one := range d.open {
		err = errors.Join(err, one.made.close())
	}
	return err
}
