//go:build vm

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// resourceState makes a link of each type, with objects that stay as they are:
// rping's two processes are stopped when they are connected.
func resourceState(t *testing.T) (links []string) {
	for _, typ := range linkTypes() {
		name, addr := "gvres"+typ, resourceAddr(typ)
		dummy(t, name+"net", addr+"/24")
		holdRping(t, link(t, name, typ, name+"net").Index, addr)
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
// leave the first message lying, see rpingText; then two others are tried.
func holdRping(t *testing.T, device uint32, addr string) {
	t.Helper()
	ids := func(state string) (n int) {
		for _, id := range dumped(t, new(netlinkrdma.Client).DumpCMID(device, nil)) {
			if state == "" || id.State.String() == state {
				n++
			}
		}
		return n
	}
	ping := []string{"rping", "-a", addr, "-C", "1000000000", "-v"}
	for range 5 {
		none := ids("")
		server := launch(t, exec.Command(ping[0], append(ping[1:], "-s")...))
		server.listens(func() bool { return ids("LISTEN") == 1 })
		client := launch(t, exec.Command(ping[0], append(ping[1:], "-c")...))
		if inTime(aChance, func() bool { return strings.Contains(client.out.soFar(), "ping data") }) {
			client.stop()
			server.stop()
			return
		}
		for _, p := range []*running{client, server} {
			p.Process.Kill()
			p.end()
		}
		until(t, "without IDs", func() bool { return ids("") == none })
	}
	t.Fatal("C's rping hung five times")
}

// stop stops a command, which then ends with the test.
func (r *running) stop() {
	r.t.Helper()
	r.late.Stop()
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	until(r.t, "stopped", func() bool {
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
	dev := must(uverbs.Open(name))(t)
	closeLater(t, dev)
	pd := must(dev.AllocPD())(t)
	closeLater(t, pd)
	for _, size := range []int{4096, 8192} {
		closeLater(t, must(pd.AllocMR(size, allAccess, nil))(t))
	}
	cq := must(dev.CreateCQ(16, nil))(t)
	closeLater(t, cq)
	create := func(typ verbs.QPType, srq *uverbs.SRQ) *uverbs.QP {
		qp := must(pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, SRQ: srq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
		closeLater(t, qp)
		return qp
	}
	create(verbs.QPTypeRC, nil)
	srq := must(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	closeLater(t, srq)
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
	closeLater(t, must(dev.AllocPD())(t))
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
	d := must(c.DeviceByName(name))(t)
	s := resourcePick{addr: resourceAddr(name[len("gvres"):])}
	for q, err := range c.DumpQP(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if q.TID != 0 && q.Port != 0 {
			s.pid, s.lqpn, s.pdn = q.TID, q.LQPN, q.PDN.Value
		}
	}
	for q, err := range c.DumpCQ(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.cqn, s.ctxn = q.CQN, q.CTXN.Value
	}
	for m, err := range c.DumpMR(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.mrn, s.mrlen = m.MRN, m.Length
	}
	for m, err := range c.DumpCMID(d.Index, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.cmidn = m.CMIDN
	}
	return s
}
