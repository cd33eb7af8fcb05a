//go:build vm

package cm

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMWriteEvent checks that an event that the program writes wakes a waiting Get. Events of the kernel may precede
// or follow it. Older kernels refuse it.
func TestCMWriteEvent(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	ch, to := newChannel(t), newChannel(t)
	id := newID(t, ch, verbs.PortSpaceTCP)
	if !kit.SinceLinux7() {
		if err := id.WriteEvent(0, 1); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
		return
	}
	type got struct {
		ev  *rdmacm.Event
		err error
	}
	came := make(chan got, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		defer cancel()
		ev, err := ch.Get(ctx)
		came <- got{ev, err}
	}()
	kit.OK(t, id.WriteEvent(0, 1<<40+5))
	g := <-came
	kit.OK(t, g.err)
	g.ev.Ack()
	if g.ev.Type != rdmacm.EventUser || g.ev.Arg != 1<<40+5 || g.ev.Err != nil || g.ev.ID != id {
		t.Errorf("%+v", g.ev)
	}
	kit.OK(t, id.WriteEvent(syscall.ECANCELED, 7))
	if ev := nextEvent(t, ch); ev.Type != rdmacm.EventUser || ev.Arg != 7 || !errors.Is(ev.Err, syscall.ECANCELED) {
		t.Errorf("%+v", ev)
	}
	// An event that has not been fetched moves with its ID.
	kit.OK(t, id.WriteEvent(0, 8))
	kit.OK(t, id.Migrate(to))
	if ev := nextEvent(t, to); ev.Arg != 8 || ev.ID != id {
		t.Errorf("%+v", ev)
	}
}

// TestCMIBRefused checks that only InfiniBand has addresses of family AF_IB and a subnet administrator.
func TestCMIBRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	gid := kit.OpenRxe(t).GID.GID
	at := &rdmacm.IBAddr{GID: gid, ServiceID: rdmacm.IBServiceID(verbs.PortSpaceIB, 7471), ServiceMask: 1<<64 - 1}
	id := newID(t, ch, verbs.PortSpaceIB)
	if err := id.BindIB(at); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
	if err := id.ResolveIB(nil, at, kit.Patience); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
	bound := newID(t, ch, verbs.PortSpaceTCP)
	kit.OK(t, bound.Bind(netip.MustParseAddrPort(kit.RxeIPv4+":0")))
	err := bound.ResolveService("storage", 0)
	t.Log(err)
	if want := map[bool]error{true: verbs.ErrNotSupported, false: syscall.EINVAL}[kit.SinceLinux7()]; !errors.Is(err, want) {
		t.Error(err)
	}
	services, err := bound.QueryServices()
	t.Log(services, err)
	if want := map[bool]error{true: syscall.ENODATA, false: verbs.ErrNotSupported}[kit.SinceLinux7()]; !errors.Is(err, want) {
		t.Error(services, err)
	}
}

// TestCMXRCIDs checks that an ID for XRC can be created and is listed as one. No device here has a queue pair for it.
func TestCMXRCIDs(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	for _, typ := range []verbs.QPType{verbs.QPTypeXRCInitiator, verbs.QPTypeXRCTarget} {
		id := kit.Must(ch.NewID(verbs.PortSpaceIB, typ))(t)
		destroyLater(t, id)
		kit.OK(t, id.Bind(netip.MustParseAddrPort(kit.RxeIPv4+":0")))
	}
}

// TestCMNamespaceOfThread checks that a locked goroutine whose thread has moved to another namespace listens there. Any
// goroutine can use the connection afterwards.
func TestCMNamespaceOfThread(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	listening := make(chan *rdmacm.Listener)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		space, err := os.Open("/run/netns/" + kit.FarSpace)
		if err == nil {
			defer space.Close()
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		}
		var l *rdmacm.Listener
		if err == nil {
			l, err = rdmacm.Listen(t.Context(), kit.FarIPv4+":7471")
		}
		if err != nil {
			failed <- err
			return
		}
		listening <- l
	}()
	var l *rdmacm.Listener
	select {
	case l = <-listening:
	case err := <-failed:
		t.Fatal(err)
	}
	kit.CloseLater(t, l)
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	accepted := make(chan error, 1)
	var server cmPeer
	go func() {
		r, err := l.Next(ctx)
		if err == nil {
			var c *rdmacm.Conn
			if c, err = r.Accept(ctx, &rdmacm.Config{Prepare: server.prepare}); err == nil {
				_, err = server.recv(ctx, c)
				<-c.Done()
				err = errors.Join(err, c.Close())
			}
		}
		accepted <- err
	}()
	var client cmPeer
	c := kit.Must((&rdmacm.Dialer{Config: rdmacm.Config{Prepare: client.prepare}}).Dial(ctx, kit.FarIPv4+":7471"))(t)
	if got := c.LocalAddr().Addr().String(); got != kit.VethIPv4 {
		t.Error("dialled from", got)
	}
	kit.OK(t, client.send(ctx, c, "across"))
	kit.OK(t, c.Close())
	kit.OK(t, <-accepted)
	// In this namespace nobody has the address.
	if _, err := rdmacm.Listen(t.Context(), kit.FarIPv4+":7471"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error(err)
	}
}
