//go:build vm

package test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
)

// TestResourceOwner: the kernel names the thread that made an object, of which the
// process can be found, and forgets it when the thread ends.
func TestResourceOwner(t *testing.T) {
	dev := openRxe(t)
	var c netlinkrdma.Client
	d := must(c.DeviceByName(rxeLink))(t).Index
	made, end, ended := make(chan int), make(chan bool), make(chan bool)
	var pd *uverbs.PD
	var err error
	var maker func()
	maker = func() {
		runtime.LockOSThread()            // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() { // but for this one
			go maker()
			<-ended
			return
		}
		defer close(ended)
		pd, err = dev.AllocPD()
		made <- unix.Gettid()
		<-end
	}
	go maker()
	tid := <-made
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, pd)
	its := func(p netlinkrdma.PD) bool { return p.TID == uint32(tid) }
	all := dumped(t, c.DumpPD(d, nil))
	i := slices.IndexFunc(all, its)
	if i < 0 {
		t.Fatalf("none of thread %d: %+v", tid, all)
	}
	if pid, err := all[i].PID(); pid != os.Getpid() || err != nil {
		t.Errorf("thread %d: process %d, %v; this is %d", tid, pid, err, os.Getpid())
	}
	close(end)
	<-ended
	until(t, "ended", func() bool { return unix.Tgkill(os.Getpid(), tid, 0) != nil })
	p, err := c.GetPD(d, all[i].PDN)
	if _, none := p.PID(); err != nil || p.TID != 0 || !errors.Is(none, netlinkrdma.ErrNoProcess) {
		t.Errorf("%+v, %v, %v", p, err, none)
	}
}
