package rdmatest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// TestXRC checks that a host has one queue pair for all its processes, and each message says whose
// SRQ it is for.
func TestXRC(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	file := must(os.Create(filepath.Join(t.TempDir(), "domain")))(t)
	defer file.Close()
	a := newSender(t, f.Host(0).Device(0))
	var processes [2]*receiver
	for i := range processes {
		processes[i] = newReceiver(t, f.Host(1).Device(0), file)
		must(processes[i].srq.PostRecv([]verbs.RecvWR{{WRID: uint64(100 + i), SGL: []verbs.SGE{processes[i].mr.SGE(0, 100)}}}))(t)
	}
	made := closed(t, must(processes[0].xrcd.CreateQP())(t))
	if err := made.Init(&verbs.QPAttr{Access: all &^ verbs.AccessMWBind}); err != nil {
		t.Fatal(err)
	}
	target := closed(t, must(processes[1].xrcd.OpenQP(made.QPN()))(t))
	connect := func(from *uverbs.QP, gid *verbs.GIDEntry, to uint32, dgid *verbs.GIDEntry) {
		if err := from.Connect(&verbs.QPAttr{DestQPN: to, AH: verbs.AHAttr{Global: true, DGID: dgid.GID, SGIDIndex: gid.Index, HopLimit: 64}}); err != nil {
			t.Fatal(err)
		}
	}
	connect(a.qp, a.gid, target.QPN(), processes[1].gid)
	connect(target, processes[1].gid, a.qp.QPN(), a.gid)
	for i, p := range processes {
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte{'a' + byte(i)}, SRQN: p.srq.Num()})
		if wc := a.next(); wc.Err() != nil {
			t.Fatal(wc)
		}
		wcs := make([]verbs.WC, 2)
		n, err := p.cq.Poll(wcs)
		if n != 1 || err != nil || wcs[0].WRID != uint64(100+i) || wcs[0].QPN != target.QPN() || wcs[0].ByteLen != 1 || p.mr.Bytes()[0] != 'a'+byte(i) {
			t.Errorf("process %d: %d, %v, %+v, %q", i, n, err, wcs[0], p.mr.Bytes()[0])
		}
		a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("written"), SRQN: p.srq.Num(), RemoteAddr: p.mr.Addr() + 200, RKey: p.mr.RKey()})
		if wc := a.next(); wc.Err() != nil || string(p.mr.Bytes()[200:207]) != "written" {
			t.Errorf("%v, %q", wc, p.mr.Bytes()[200:207])
		}
	}
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("x"), SRQN: 0xfffff0})
	if wc := a.next(); wc.Status != verbs.StatusRemInvReqErr {
		t.Errorf("to no SRQ: %v", wc)
	}
}

// receiver is a process's part in a domain of XRC.
type receiver struct {
	xrcd *uverbs.XRCD
	cq   *uverbs.CQ
	mr   *uverbs.MR
	srq  *uverbs.SRQ
	gid  *verbs.GIDEntry
}

func newReceiver(t *testing.T, d *rdmatest.Device, file *os.File) *receiver {
	t.Helper()
	p := &receiver{}
	dev := closed(t, must(uverbs.Open(d.Name()))(t))
	pd := closed(t, must(dev.AllocPD())(t))
	p.gid = must(dev.ChooseGID(1, nil))(t)
	p.cq = closed(t, must(dev.CreateCQ(8, nil))(t))
	p.mr = closed(t, must(pd.AllocMR(4096, all, nil))(t))
	p.xrcd = closed(t, must(dev.OpenXRCD(file, os.O_CREATE))(t))
	p.srq = closed(t, must(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1, XRCD: p.xrcd, CQ: p.cq}))(t))
	return p
}

// newSender makes an initiator of XRC, in INIT.
func newSender(t *testing.T, d *rdmatest.Device) *node {
	t.Helper()
	n := &node{t: t}
	n.dev = closed(t, must(uverbs.Open(d.Name()))(t))
	n.pd = closed(t, must(n.dev.AllocPD())(t))
	n.ch = closed(t, must(n.dev.CreateCompChannel())(t))
	n.cq = closed(t, must(n.dev.CreateCQ(64, &uverbs.CQOptions{Channel: n.ch}))(t))
	n.gid = must(n.dev.ChooseGID(1, nil))(t)
	n.qp = closed(t, must(n.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: n.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 2, MaxInline: 64}}))(t))
	if err := n.qp.Init(&verbs.QPAttr{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMLX5Outcomes checks that failures on a network card have the statuses of the InfiniBand
// specification, where soft RoCE has its own.
func TestMLX5Outcomes(t *testing.T) {
	const rc, uc, ud = verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD
	const send, write, read = verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead
	const tooLong, unwritable = "1000 local length error, 1001 work request flushed; ERR", "1000 local protection error, 1001 work request flushed; ERR"
	runTrials(t, rdmatest.MLX5, map[string]trial{
		"SEND":                        {rc, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 8, 1001 work request flushed; RTS"},
		"UC SEND":                     {uc, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 8, 1001 work request flushed; RTS"},
		"UD SEND":                     {ud, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 48, 1001 work request flushed; RTS"},
		"SEND, local key":             {rc, send, 8, all, badLKey, "1 local protection error; ERR", untouched},
		"READ, local key":             {rc, read, 8, all, badLKey, "1 local protection error; ERR", untouched},
		"WRITE, remote key":           {rc, write, 8, all, badRKey, refused, lost},
		"SEND, receive too short":     {rc, send, recvSize + 1, all, nil, "1 remote invalid request; ERR", tooLong},
		"SEND, receive not writable":  {rc, send, 8, verbs.AccessRemoteRead, nil, "1 remote operation error; ERR", unwritable},
		"UC SEND, receive too short":  {uc, send, recvSize + 1, all, nil, "1 SEND success; RTS", tooLong},
		"UD SEND, receive too short":  {ud, send, recvSize - uverbs.GRHSize + 1, all, nil, "1 SEND success; RTS", untouched},
		"UD SEND, not writable there": {ud, send, 8, verbs.AccessRemoteRead, nil, "1 SEND success; RTS", unwritable},
		"BIND_MW, no region":          {rc, verbs.OpBindMW, 0, all, nil, "1 memory window bind error; ERR", untouched},
	})
}

// TestNullMR checks that parts of messages come from no memory, as zeros, and go to none, whether the
// device or the provider puts them where they belong. test/sandbox/null.c does the same.
func TestNullMR(t *testing.T) {
	for name, short := range map[string]uint32{"in memory": 0, "in completions": 32} {
		t.Run(name, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
			at := func(host int) *node {
				return newNodeOn(t, f.Host(host).Device(0), verbs.QPTypeRC, all, all&^verbs.AccessMWBind, uverbs.CQOptions{MaxInline: short})
			}
			a, b := at(0), at(1)
			a.connect(b, nil)
			b.connect(a, nil)
			from, to := closed(t, must(a.pd.AllocNullMR())(t)), closed(t, must(b.pd.AllocNullMR())(t))
			copy(a.mr.Bytes()[sendFrom:], "headbody")
			copy(b.mr.Bytes(), "........")
			receive := func(sgl ...verbs.SGE) {
				must(b.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}))(t)
			}
			send := func(n uint32, sgl ...verbs.SGE) {
				a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
				if sent := a.next(); sent.Err() != nil {
					t.Fatal(sent)
				}
				if got := b.next(); got.Err() != nil || got.ByteLen != n {
					t.Error(got)
				}
			}
			want := func(n *node, text string) {
				if got := string(n.mr.Bytes()[:len(text)]); got != text {
					t.Errorf("%q, want %q", got, text)
				}
			}
			receive(to.SGE(1<<40, 4), b.mr.SGE(0, 4))
			send(8, a.mr.SGE(sendFrom, 8))
			want(b, "body....")
			receive(b.mr.SGE(0, 8))
			send(8, a.mr.SGE(sendFrom, 4), from.SGE(0, 4))
			want(b, "head\x00\x00\x00\x00")
			a.post(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{from.SGE(0, 4), a.mr.SGE(0, 4)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if wc := a.next(); wc.Err() != nil {
				t.Error(wc)
			}
			want(a, "\x00\x00\x00\x00")
			a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.mr.SGE(0, 4)}, RemoteAddr: b.mr.Addr(), RKey: to.LKey()})
			if wc := a.next(); wc.Status != verbs.StatusRemAccessErr {
				t.Error("a peer writes to no memory:", wc)
			}
		})
	}
}

// deviceMemory is a DM of a node's, and a region of it from offset 64 on.
func deviceMemory(t *testing.T, n *node, access verbs.Access) (*uverbs.DM, *uverbs.MR) {
	t.Helper()
	dm := closed(t, must(n.dev.AllocDM(1000, 128))(t))
	return dm, closed(t, must(n.pd.RegDM(dm, 64, 512, access))(t))
}

// holds returns the byte of a DM at an offset.
func holds(t *testing.T, dm *uverbs.DM, offset int64, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if must(dm.ReadAt(got, offset))(t); string(got) != want {
		t.Errorf("at %d: %q, want %q", offset, got, want)
	}
}

// TestDeviceMemory is what test_mr.DeviceMemoryTest does, and READs and atomics: sends come
// from memory of the device's, and go there.
func TestDeviceMemory(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a, b := two(t, f, verbs.QPTypeRC, all)
	mine, from := deviceMemory(t, a, verbs.AccessLocalWrite)
	his, to := deviceMemory(t, b, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	must(mine.WriteAt([]byte("device memory it is!"), 64))(t)
	good := func(wr verbs.SendWR) {
		t.Helper()
		a.post(wr)
		if wc := a.next(); wc.Err() != nil {
			t.Fatal(wc)
		}
	}
	good(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{from.SGE(0, 20)}})
	if got := b.mr.Bytes()[:20]; string(got) != "device memory it is!" {
		t.Errorf("received %q", got)
	}
	good(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(7, 13)}, RemoteAddr: 40, RKey: to.RKey()})
	holds(t, his, 64+40, "memory it is!\x00\x00\x00")
	good(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{from.SGE(100, 13)}, RemoteAddr: 40, RKey: to.RKey()})
	holds(t, mine, 164, "memory it is!\x00\x00\x00")
	word := binary.NativeEndian.AppendUint64(nil, 40)
	must(his.WriteAt(word, 64+8))(t)
	good(verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{from.SGE(200, 8)}, RemoteAddr: 8, RKey: to.RKey(), CompareAdd: 2})
	holds(t, mine, 264, string(word))
	holds(t, his, 64+8, string(binary.NativeEndian.AppendUint64(nil, 42)))
	a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(0, 8)}, RemoteAddr: 505, RKey: to.RKey()})
	if wc := a.next(); wc.Status != verbs.StatusRemAccessErr {
		t.Errorf("behind the end of the region: %v", wc)
	}
}

// TestDeviceMemoryAPI is what test_device.DMTest, test_mr.DeviceMemoryAPITest and
// test_device.SharedDMTest do, but for the parts that need another process.
func TestDeviceMemoryAPI(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
	pd := closed(t, must(dev.AllocPD())(t))
	most := int(must(dev.Attr())(t).MaxDMSize)
	for _, length := range []int{4, 100, 4096, most / 4, most / 2} {
		for align := range 7 {
			dm := must(dev.AllocDM(length, 1<<align))(t)
			data := bytes.Repeat([]byte{byte(align + 1)}, length)
			must(dm.WriteAt(data, 0))(t)
			holds(t, dm, 0, string(data))
			if err := errors.Join(must(pd.RegDM(dm, 0, length, verbs.AccessLocalWrite))(t).Close(), dm.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	dm := closed(t, must(dev.AllocDM(100, 0))(t))
	for name, err := range map[string]error{
		"more than there is":    second(dev.AllocDM(most+1, 0)),
		"an alignment of 1<<40": second(dev.AllocDM(4, 1<<40)),
		"offset 3":              second(dm.WriteAt(make([]byte, 4), 3)),
		"length 3":              second(dm.ReadAt(make([]byte, 3), 4)),
		"a window's right":      second(pd.RegDM(dm, 0, 100, verbs.AccessLocalWrite|verbs.AccessMWBind)),
		"behind the end":        second(pd.RegDM(dm, 0, 104, verbs.AccessLocalWrite)),
	} {
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := closed(t, must(dev.AllocDM(most/2, 0))(t))
	if err := second(dev.AllocDM(most/2, 0)); !errors.Is(err, syscall.ENOMEM) || whole.Len() != most/2 {
		t.Errorf("when too little is left: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoDeviceMemory checks that other drivers have no device memory.
func TestNoDeviceMemory(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE, rdmatest.ERDMA} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
		if a := must(dev.Attr())(t); a.MaxDMSize != 0 {
			t.Errorf("%v has %d bytes", kind, a.MaxDMSize)
		}
		if err := second(dev.AllocDM(64, 0)); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("AllocDM on %v: %v", kind, err)
		}
		if err := second(dev.ImportDM(0)); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("ImportDM on %v: %v", kind, err)
		}
	}
}

// hashKey is the key of Microsoft's examples of RSS.
var hashKey = []byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// spread is a QP that deals frames out to WQs.
type spread struct {
	*node
	wqs []*uverbs.WQ
	rss *uverbs.QP
}

func newSpread(t *testing.T, d *rdmatest.Device, wqs int, fields rss.HashFields) *spread {
	t.Helper()
	s := &spread{node: newNode(t, d, verbs.QPTypeRawPacket, all)}
	for range wqs {
		w := closed(t, must(s.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 4, MaxSGE: 2, CQ: s.cq}))(t))
		s.state(w, rss.WQStateReady)
		s.wqs = append(s.wqs, w)
	}
	table := closed(t, must(s.dev.CreateRWQIndTable(s.wqs))(t))
	s.rss = closed(t, must(s.pd.CreateRSSQP(&uverbs.RSSOptions{Table: table,
		Hash: rss.Hash{Function: rss.Toeplitz, Key: hashKey, Fields: fields}}))(t))
	closed(t, must(s.rss.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x800)}}))(t))
	return s
}

func (s *spread) state(w *uverbs.WQ, to rss.WQState) {
	s.t.Helper()
	if err := w.Modify(&rss.WQAttr{State: to}, rss.WQAttrState); err != nil {
		s.t.Fatal(err)
	}
}

func (s *spread) receiveAt(w *uverbs.WQ, id uint64) {
	s.t.Helper()
	if _, err := w.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{s.mr.SGE(0, recvSize)}}}); err != nil {
		s.t.Fatal(err)
	}
}

// from is a frame of other addresses and ports.
func from(src, dst [4]byte, srcPort, dstPort uint16) []byte {
	b := frameOf(false)
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	binary.BigEndian.PutUint16(b[34:], srcPort)
	binary.BigEndian.PutUint16(b[36:], dstPort)
	return b
}

// RSS deals frames out as Microsoft's verification suite says: of the hash, the low bits are
// the place in the table.
func TestRSS(t *testing.T) {
	const addresses = rss.SrcIPv4 | rss.DstIPv4
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	for _, c := range []struct {
		fields rss.HashFields
		frame  []byte
		hash   uint32
	}{
		{addresses, from([4]byte{66, 9, 149, 187}, [4]byte{161, 142, 100, 80}, 2794, 1766), 0x323e8fc2},
		{addresses, from([4]byte{199, 92, 111, 2}, [4]byte{65, 69, 140, 83}, 14230, 4739), 0xd718262a},
		{addresses | rss.SrcPortUDP | rss.DstPortUDP, from([4]byte{66, 9, 149, 187}, [4]byte{161, 142, 100, 80}, 2794, 1766), 0x51ccc178},
		{addresses | rss.SrcPortUDP | rss.DstPortUDP, from([4]byte{199, 92, 111, 2}, [4]byte{65, 69, 140, 83}, 14230, 4739), 0xc626b0ea},
	} {
		const wqs = 8
		s := newSpread(t, f.Host(1).Device(0), wqs, c.fields)
		for i, w := range s.wqs {
			s.receiveAt(w, uint64(i))
		}
		a.send(c.frame, 0)
		wc := s.next()
		if want := s.wqs[c.hash%wqs]; wc.Err() != nil || wc.WRID != uint64(c.hash%wqs) || wc.QPN != want.Num() || !bytes.Equal(s.mr.Bytes()[:frameSize], c.frame) {
			t.Errorf("%#x: %+v, want WQ %d", c.hash, wc, c.hash%wqs)
		}
		if _, err := s.rss.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, verbs.ErrNotSupported) {
			t.Error(err)
		}
	}
}

// A WQ begins anew in RESET, and loses its completions; in ERR its receives are flushed.
func TestWQStates(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	s := newSpread(t, f.Host(1).Device(0), 1, rss.SrcIPv4)
	w := s.wqs[0]
	s.receiveAt(w, 1)
	s.receiveAt(w, 2)
	a.send(frameOf(false), 0)
	s.state(w, rss.WQStateReset)
	if _, err := w.PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("a WQ takes a receive in RESET")
	}
	s.state(w, rss.WQStateReady)
	a.send(frameOf(false), 0) // nobody waits
	s.receiveAt(w, 3)
	a.send(frameOf(false), 0)
	if wc := s.next(); wc.WRID != 3 || wc.Err() != nil {
		t.Errorf("%+v", wc)
	}
	s.receiveAt(w, 4)
	s.state(w, rss.WQStateErr)
	if wc := s.next(); wc.WRID != 4 || !errors.Is(wc.Err(), verbs.StatusWRFlushErr) {
		t.Errorf("%+v", wc)
	}
	if err := w.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err == nil {
		t.Error("a WQ goes from ERR to RDY")
	}
}
