package perf

import (
	"context"
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/perftest"
	_ "github.com/goverbs/goverbs/provider/rxe"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// world is two ends, each on a fake kernel, and the wire between them.
type world struct {
	t    *testing.T
	ends [2]*end // client and server
	qps  [2][]*fakeverbs.QP
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t}
	procs := runtime.GOMAXPROCS(4) // two that poll and the wire
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	var way [2]*TCPPath
	var sent [2][]perftest.Endpoint
	for i, role := range []perftest.Role{perftest.Client, perftest.Server} {
		k := fakeverbs.New(uint32(verbs.DriverRXE))
		dev, err := openOn(uverbs.DeviceInfo{Name: "rxe0", Driver: verbs.DriverRXE, ABI: 2}, k)
		w.ok(err)
		t.Cleanup(func() { w.ok(dev.Close()) })
		mine := Completed(o)
		mine.Role = role
		port, err := mine.fit(dev, o.asksSize())
		w.ok(err)
		w.ends[i], err = newEnd(&mine, dev, port, mine.system())
		w.ok(err)
		t.Cleanup(func() { w.ok(w.ends[i].Close()) })
		way[i] = &TCPPath{dev: dev, gid: &verbs.GIDEntry{GID: fakeverbs.IPv4GID, Index: 1}}
		w.ok(way[i].makePairs(t.Context(), nil, w.ends[i]))
		sent[i] = way[i].endpoints(w.ends[i])
		w.qps[i] = k.QueuePairs()
	}
	for i, e := range w.ends {
		for j, f := range e.flows {
			f.peer = sent[1-i][j]
		}
		w.ok(way[i].connect(e, sent[i], sent[1-i]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			if !w.move() {
				runtime.Gosched()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// move carries out a message of each QP.
func (w *world) move() (moved bool) {
	for i := range w.qps {
		for j, qp := range w.qps[i] {
			s, ok := fakerxe.QPOf(qp).TakeSend()
			if !ok {
				continue
			}
			moved = true
			peer := w.qps[1-i][j]
			switch s.Wr.Opcode {
			case abi.IB_UVERBS_WR_SEND:
				w.deliver(peer, s.Dma.Length)
			case abi.IB_UVERBS_WR_RDMA_WRITE:
				w.write(i, &s)
			}
			if s.Wr.SendFlags&abi.IB_SEND_SIGNALED != 0 {
				fakerxe.CQOf(qp.SendCQ).Complete(abi.IbUverbsWc{WrId: s.Wr.WrId, QpNum: qp.Num})
			}
		}
	}
	return moved
}

// deliver waits for a receive, as reliable connections do.
func (w *world) deliver(qp *fakeverbs.QP, n uint32) {
	for w.t.Context().Err() == nil {
		if r, ok := fakerxe.QPOf(qp).TakeRecv(); ok {
			fakerxe.CQOf(qp.RecvCQ).Complete(abi.IbUverbsWc{WrId: r.WrId, Opcode: abi.IB_WC_RECV, ByteLen: n, QpNum: qp.Num})
			return
		}
		runtime.Gosched()
	}
}

// write carries the last byte only, by which the peer knows a WRITE.
func (w *world) write(from int, s *fakerxe.Send) {
	e, peer := w.ends[from], w.ends[1-from]
	rdma := fakerxe.WR[abi.RxeSendWrRdma](s)
	last := rdma.RemoteAddr - peer.mr.Addr() + uint64(s.Dma.Length) - 1
	if last >= uint64(peer.mr.Len()) || rdma.Rkey != peer.mr.RKey() {
		w.t.Errorf("WRITE to %#x, key %#x", rdma.RemoteAddr, rdma.Rkey)
		return
	}
	if !e.Latency {
		return
	}
	word, err := peer.words.Word(int(last) &^ 3)
	if err != nil {
		w.t.Error(err)
		return
	}
	shift := uint(last&3) * 8
	word.Store(word.Load()&^(0xff<<shift) | uint32(e.mr.Bytes()[s.Dma.Length-1])<<shift)
}

// newRuns prepares both ends for a size.
func (w *world) newRuns(size int) (runs [2]*run) {
	w.t.Helper()
	for i, e := range w.ends {
		runs[i] = newRun(w.t.Context(), e, size, new(Progress))
		w.t.Cleanup(func() { runs[i].cancel(nil) })
		w.ok((&measurement{end: e}).prepare(runs[i]))
	}
	return runs
}

// measure runs one size at both ends, and returns their states.
func (w *world) measure(size int) [2]*run {
	w.t.Helper()
	runs := w.newRuns(size)
	w.play(runs)
	return runs
}

// play has both ends measure, or the client alone.
func (w *world) play(runs [2]*run) {
	w.t.Helper()
	served := make(chan error, 1)
	if w.ends[1].ServerIdle() {
		served <- nil
	} else {
		go func() { served <- runs[1].measure() }()
	}
	err := runs[0].measure()
	w.ok(<-served)
	w.ok(err)
}

// openOn opens a device on a fake kernel.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}
