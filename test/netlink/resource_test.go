//go:build vm

package netlink

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// sameOne asks for each object of a list by its number.
func sameOne[T any](t *testing.T, list []T, get func(v T) (T, error)) {
	t.Helper()
	if len(list) == 0 {
		t.Errorf("no %T", list)
	}
	for _, want := range list {
		got, err := get(want)
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); err != nil || diff != "" {
			t.Errorf("%v (-dumped +got):\n%s", err, diff)
		}
	}
}

func TestResourceGet(t *testing.T) {
	for _, name := range resourceState(t) {
		var c netlinkrdma.Client
		d := kit.Must(c.DeviceByName(name))(t).Index
		qps := slices.DeleteFunc(kit.Dumped(t, c.QPs(d, nil)), func(q netlinkrdma.QP) bool { return q.Port == 0 })
		sameOne(t, qps, func(q netlinkrdma.QP) (netlinkrdma.QP, error) { return c.QP(d, q.Port, q.LQPN) })
		ids := slices.DeleteFunc(kit.Dumped(t, c.CMIDs(d, nil)), func(m netlinkrdma.CMID) bool { return m.Port == 0 })
		sameOne(t, ids, func(m netlinkrdma.CMID) (netlinkrdma.CMID, error) { return c.CMID(d, m.Port, m.CMIDN) })
		sameOne(t, kit.Dumped(t, c.CQs(d, nil)), func(q netlinkrdma.CQ) (netlinkrdma.CQ, error) { return c.CQ(d, q.CQN) })
		sameOne(t, kit.Dumped(t, c.MRs(d, nil)), func(m netlinkrdma.MR) (netlinkrdma.MR, error) { return c.MR(d, m.MRN) })
		sameOne(t, kit.Dumped(t, c.PDs(d, nil)), func(p netlinkrdma.PD) (netlinkrdma.PD, error) { return c.PD(d, p.PDN) })
		sameOne(t, kit.Dumped(t, c.Contexts(d, nil)), func(x netlinkrdma.Context) (netlinkrdma.Context, error) { return c.Context(d, x.CTXN) })
		sameOne(t, kit.Dumped(t, c.SRQs(d, nil)), func(s netlinkrdma.SRQ) (netlinkrdma.SRQ, error) { return c.SRQ(d, s.SRQN) })

		if _, err := c.CQ(d, 1<<30); !errors.Is(err, netlinkrdma.ErrNoObject) || !errors.Is(err, syscall.ENOENT) {
			t.Errorf("a CQ that is none: %v", err)
		}
		if _, err := c.CQ(1<<30, 1); !errors.Is(err, netlinkrdma.ErrNotFound) {
			t.Errorf("a device that is none: %v", err)
		}
		for _, err := range c.RawObjects(d, netlinkrdma.RawQP, nil) {
			if !errors.Is(err, netlinkrdma.ErrNoRaw) {
				t.Errorf("raw data of a soft driver: %v", err)
			}
		}
	}
}

// TestResourceDumpLong checks that a dump of several datagrams gives each QP once, while others come
// and go behind them.
func TestResourceDumpLong(t *testing.T) {
	kit.Only612(t)
	const many = 1000
	dev := kit.OpenRxe(t)
	kit.NoLeak(t)
	cq := kit.Must(dev.CreateCQ(16, nil))(t)
	kit.CloseLater(t, cq)
	create := func() *uverbs.QP {
		return kit.Must(dev.PD.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	}
	lives := make(map[uint32]bool)
	for range many {
		qp := create()
		kit.CloseLater(t, qp)
		lives[qp.QPN()] = true
	}
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(kit.RxeLink))(t).Index
	for range 5 {
		seen := make(map[uint32]int)
		for q, err := range c.QPs(d, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[q.LQPN]++; len(seen)%100 == 0 {
				if err := create().Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for lqpn := range lives {
			if seen[lqpn] != 1 {
				t.Errorf("QP %d is given %d times", lqpn, seen[lqpn])
			}
		}
	}
	n := 0
	for _, err := range c.QPs(d, nil) {
		if n++; err != nil || n == 5 { // the rest is not wanted
			break
		}
	}
	if n != 5 {
		t.Errorf("%d QPs", n)
	}
}

// TestResourceOwner checks that the kernel names the thread that made an object, of which the process can be found, and
// forgets it when the thread ends.
func TestResourceOwner(t *testing.T) {
	dev := kit.OpenRxe(t)
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(kit.RxeLink))(t).Index
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
	kit.CloseLater(t, pd)
	its := func(p netlinkrdma.PD) bool { return p.TID == uint32(tid) }
	all := kit.Dumped(t, c.PDs(d, nil))
	i := slices.IndexFunc(all, its)
	if i < 0 {
		t.Fatalf("none of thread %d: %+v", tid, all)
	}
	if pid, err := all[i].PID(); pid != os.Getpid() || err != nil {
		t.Errorf("thread %d: process %d, %v; this is %d", tid, pid, err, os.Getpid())
	}
	close(end)
	<-ended
	kit.Until(t, "ended", func() bool { return unix.Tgkill(os.Getpid(), tid, 0) != nil })
	p, err := c.PD(d, all[i].PDN)
	if _, none := p.PID(); err != nil || p.TID != 0 || !errors.Is(none, netlinkrdma.ErrNoProcess) {
		t.Errorf("%+v, %v, %v", p, err, none)
	}
}

// resourceState makes a link of each type, with objects that stay as they are:
// rping's two processes are stopped when they are connected.
func resourceState(t *testing.T) (links []string) {
	for _, typ := range kit.LinkTypes() {
		name, addr := "gvres"+typ, resourceAddr(typ)
		kit.Dummy(t, name+"net", addr+"/24")
		holdRping(t, kit.Link(t, name, typ, name+"net").Index, addr)
		holdObjects(t, name, typ == "rxe")
		links = append(links, name)
	}
	return links
}

func resourceAddr(typ string) string {
	if typ == "siw" {
		return "10.84.1.1"
	}
	return "10.84.2.1"
}

// holdRping connects two of them on this device, and stops them. A race in siw can
// leave the first message lying, see kit.RpingText; then two others are tried.
func holdRping(t *testing.T, device uint32, addr string) {
	t.Helper()
	ids := func(state string) (n int) {
		for _, id := range kit.Dumped(t, new(netlinkrdma.Client).CMIDs(device, nil)) {
			if state == "" || id.State.String() == state {
				n++
			}
		}
		return n
	}
	ping := []string{"rping", "-a", addr, "-C", "1000000000", "-v"}
	for range 5 {
		none := ids("")
		server := kit.Launch(t, exec.Command(ping[0], append(ping[1:], "-s")...))
		server.Listens(func() bool { return ids("LISTEN") == 1 })
		client := kit.Launch(t, exec.Command(ping[0], append(ping[1:], "-c")...))
		if kit.InTime(kit.RetryTimeout, func() bool { return strings.Contains(client.Out.SoFar(), "ping data") }) {
			stop(client)
			stop(server)
			return
		}
		for _, p := range []*kit.Running{client, server} {
			p.Process.Kill()
			p.End()
		}
		kit.Until(t, "without IDs", func() bool { return ids("") == none })
	}
	t.Fatal("C's rping hung five times")
}

// stop stops a command, which then ends with the test.
func stop(r *kit.Running) {
	r.T.Helper()
	r.Late.Stop()
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		r.T.Fatal(err)
	}
	kit.Until(r.T, "stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", r.Process.Pid))
		return !slices.ContainsFunc(threads, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	})
}

// holdObjects makes objects of this process; on rxe such as siw has not, too.
func holdObjects(t *testing.T, name string, rxe bool) {
	t.Helper()
	dev := kit.Must(uverbs.Open(name))(t)
	kit.CloseLater(t, dev)
	pd := kit.Must(dev.AllocPD())(t)
	kit.CloseLater(t, pd)
	for _, size := range []int{4096, 8192} {
		kit.CloseLater(t, kit.Must(pd.AllocMR(size, kit.AllAccess, nil))(t))
	}
	cq := kit.Must(dev.CreateCQ(16, nil))(t)
	kit.CloseLater(t, cq)
	create := func(typ verbs.QPType, srq *uverbs.SRQ) *uverbs.QP {
		qp := kit.Must(pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, SRQ: srq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
		kit.CloseLater(t, qp)
		return qp
	}
	create(verbs.QPTypeRC, nil)
	srq := kit.Must(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	kit.CloseLater(t, srq)
	for range 3 { // two runs, 3 and 1, and one between that uses it not
		create(verbs.QPTypeRC, srq)
	}
	create(verbs.QPTypeRC, nil)
	create(verbs.QPTypeRC, srq)
	if rxe {
		create(verbs.QPTypeUC, nil)
		ud := create(verbs.QPTypeUD, nil)
		if err := ud.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, QKey: 0x111}, verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrQKey|verbs.QPAttrPKeyIndex); err != nil {
			t.Fatal(err)
		}
	}
	kit.CloseLater(t, kit.Must(dev.AllocPD())(t))
}

// resourcePick has numbers that pick something on a link.
type resourcePick struct {
	addr                                  string
	pid, lqpn, pdn, cqn, ctxn, mrn, cmidn uint32
	mrlen                                 uint64
}

func resourceNumbers(t *testing.T, name string) resourcePick {
	t.Helper()
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(name))(t)
	s := resourcePick{addr: resourceAddr(name[len("gvres"):])}
	for q, err := range c.QPs(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if q.TID != 0 && q.Port != 0 {
			s.pid, s.lqpn, s.pdn = q.TID, q.LQPN, q.PDN.Value
		}
	}
	for q, err := range c.CQs(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.cqn, s.ctxn = q.CQN, q.CTXN.Value
	}
	for m, err := range c.MRs(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.mrn, s.mrlen = m.MRN, m.Length
	}
	for m, err := range c.CMIDs(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.cmidn = m.CMIDN
	}
	return s
}
