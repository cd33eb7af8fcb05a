package rdmacm

import (
	"math/bits"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// prepare makes the queue pair on the device that the ID is bound to, and lets
// the caller post to it. Close frees what a failed prepare leaves behind.
func (c *Conn) prepare(cfg *Config) error {
	addr, err := c.id.QueryAddr()
	if err != nil {
		return err
	}
	return c.prepareAt(addr, cfg)
}

// prepareAt is prepare for a caller that knows the address of the ID.
func (c *Conn) prepareAt(addr *Addr, cfg *Config) (err error) {
	c.whereabouts(addr)
	c.announced = cfg.PrivateData
	if err := c.openPD(addr, cfg); err != nil {
		return err
	}
	opts := cfg.QP
	if c.id.datagram {
		opts.Type = verbs.QPTypeUD
	}
	if cfg.PrepareQP != nil {
		if err := cfg.PrepareQP(c, &opts); err != nil {
			return err
		}
	}
	c.ownSendCQ = opts.SendCQ == nil
	if err := c.makeCQs(&opts, cfg.RecvCQEntries); err != nil {
		return err
	}
	if c.qp, err = c.pd.CreateQP(&opts); err != nil {
		return err
	}
	c.link.add(freeing(c.freeQP))
	if err := c.id.AttachQP(c.qp); err != nil {
		return err
	}
	if !c.id.datagram { // one that failed does a datagram queue pair no harm
		c.watch()
	}
	if cfg.Prepare != nil {
		return cfg.Prepare(c)
	}
	return nil
}

// openPD uses the caller's protection domain, or makes one, on the caller's device
// if there is one.
func (c *Conn) openPD(addr *Addr, cfg *Config) error {
	dev := cfg.ownDevice()
	if dev != nil {
		if err := addr.mustBeOn(dev.Info(), "Config's PD or CQ on"); err != nil {
			return err
		}
	}
	if c.pd = cfg.PD; c.pd != nil {
		return nil
	}
	if dev == nil {
		shared, err := devices.get(addr.DeviceIndex, addr.NodeGUID)
		if err != nil {
			return err
		}
		c.device.add(freeing(shared.put))
		dev = shared.dev
	}
	var err error
	if c.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	c.verbs.add(c.pd)
	return nil
}

// makeCQs completes opts with CQs that share one completion channel.
func (c *Conn) makeCQs(opts *uverbs.QPOptions, recvEntries int) error {
	if opts.SendCQ != nil && opts.RecvCQ != nil {
		return nil
	}
	channel, err := c.Device().CreateCompChannel()
	if err != nil {
		return err
	}
	c.verbs.add(channel)
	for _, want := range []struct {
		cq      **uverbs.CQ
		entries int
	}{
		{&opts.SendCQ, int(opts.Cap.MaxSendWR)},
		{&opts.RecvCQ, recvEntries},
	} {
		if *want.cq != nil {
			continue
		}
		cq, err := c.Device().CreateCQ(roomFor(want.entries), &uverbs.CQOptions{Channel: channel})
		if err != nil {
			return err
		}
		c.verbs.add(cq)
		c.ending.add(cq)
		*want.cq = cq
	}
	return nil
}

// roomFor rounds up as drivers round up queues: a caller may use all the work
// requests that the queue pair turned out to have.
func roomFor(wrs int) int { return 1 << bits.Len(uint(max(wrs, 1)-1)) }

// freeUnless frees the Conn that an attempt leaves behind when it ends by a panic, or by
// runtime.Goexit, in the caller's Prepare.
func (c *Conn) freeUnless(returned *bool) {
	if !*returned {
		_ = c.Close()
	}
}

// connected notes what holds from now on.
func (c *Conn) connected() {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.established = !c.id.datagram
	c.ending.stand()
}

func (c *Conn) whereabouts(addr *Addr) {
	c.local, c.remote, c.port = addr.Local, addr.Remote, addr.Port
}

// lookAround asks for the whereabouts once more, because connecting may have changed
// them.
func (c *Conn) lookAround() error {
	addr, err := c.id.QueryAddr()
	if err != nil {
		return err
	}
	c.whereabouts(addr)
	return nil
}
