package main

import (
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// start causes each error that a first program may encounter.
func start(l *lab) {
	host := l.network(rdmatest.RXE).Host(0)
	device := host.Device(0)

	_, err := uverbs.Open("mlx5_9")
	l.say("a device that is not there: %s", sentinel(err, verbs.ErrNoDevice))

	fault := device.Fail(rdmatest.CallOpen, 0, syscall.EACCES)
	_, err = uverbs.Open(device.Name())
	l.say("a node that this user may not open: %s", cause(err))
	fault.Stop()

	dev := closing(l, must(uverbs.Open(device.Name())))
	pd := closing(l, must(dev.AllocPD()))
	host.SetMemlock(64 << 10)
	_, err = pd.AllocMR(1<<20, verbs.AccessLocalWrite, nil)
	l.say("1 MiB with a limit of 64 KiB: %s", sentinel(err, syscall.ENOMEM))
	host.SetMemlock(-1)

	_, err = dev.ChooseGID(1, &uverbs.GIDChoice{Addr: netip.MustParseAddr("192.0.2.1")})
	l.say("a GID of an address that the port has not: %s", sentinel(err, verbs.ErrNoGID))
	device.SetLink(false)
	_, err = dev.ChooseGID(1, nil)
	l.say("a GID of a port that is down: %s", cause(err))
	device.SetLink(true)

	_, err = rdmacm.Dial(background, host.Addr()+":7471")
	l.say("nobody listens there: %s", cause(err))
}
