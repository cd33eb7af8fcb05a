package umad

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// fakeFile is a umad node whose kernel side is the test.
type fakeFile struct {
	config Config      // of the port that open opens
	reads  chan []byte // messages to be read; nil means the end
	wrote  chan []byte
	ioctls func(request uintptr, arg []byte) error

	mu     sync.Mutex
	writes error
	next   []byte // did not fit
	once   sync.Once
	closed chan struct{}
}

func newFake(ioctls func(uintptr, []byte) error) *fakeFile {
	return &fakeFile{reads: make(chan []byte, 16), wrote: make(chan []byte, 16), ioctls: ioctls, closed: make(chan struct{})}
}

// accept returns an ioctl function that registers agents and numbers them from 7.
func accept() func(uintptr, []byte) error {
	id := uint32(6)
	return func(request uintptr, arg []byte) error {
		if request == registerAgent2 {
			id++
			binary.NativeEndian.PutUint32(arg, id)
		}
		return nil
	}
}

func (f *fakeFile) Read(p []byte) (int, error) {
	m := f.next
	f.next = nil
	if m == nil {
		select {
		case m = <-f.reads:
		case <-f.closed:
			return 0, os.ErrClosed
		}
	}
	if m == nil {
		return 0, unix.EIO
	}
	n := copy(p, m)
	announced := 0
	if len(m) >= headerSize {
		announced = int(binary.NativeEndian.Uint32(m[16:]))
	}
	if len(p) < max(len(m), announced) {
		f.next = m
		return 0, unix.ENOSPC
	}
	return n, nil
}

func (f *fakeFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	err := f.writes
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	f.wrote <- append([]byte(nil), p...)
	return len(p), nil
}

func (f *fakeFile) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *fakeFile) ioctl(request uintptr, arg []byte) error { return f.ioctls(request, arg) }

// received returns a message from the kernel, a header and a MAD.
func received(agent, status uint32, data []byte) []byte {
	b := make([]byte, headerSize, headerSize+len(data))
	binary.NativeEndian.PutUint32(b, agent)
	binary.NativeEndian.PutUint32(b[4:], status)
	binary.NativeEndian.PutUint32(b[16:], uint32(headerSize+len(data)))
	return append(b, data...)
}

func (f *fakeFile) open(t *testing.T) *port {
	t.Helper()
	p, err := newPort(f.config, host{t.TempDir(), t.TempDir()}, node{device: "mlx5_0", port: 1, umad: "umad0"}, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRegister(t *testing.T, p mad.Port, c mad.AgentConfig) mad.Agent {
	t.Helper()
	a, err := p.Register(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestHeader checks that written headers have the layout of rdma/ib_user_mad.h.
func TestHeader(t *testing.T) {
	f := newFake(accept())
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassPerf})
	req := &mad.Message{
		Addr: mad.Addr{LID: 0x1234, QPN: 1, QKey: mad.QKeyGSI, SL: 3, PathBits: 2, PKeyIndex: 5,
			GRH: &mad.GRH{GID: verbs.GID{0xfe, 0x80, 15: 9}, GIDIndex: 4, HopLimit: 64, TrafficClass: 7, FlowLabel: 0xabcde}},
		Data: mad.New(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0),
	}
	type result struct {
		m   *mad.Message
		err error
	}
	done := make(chan result)
	go func() {
		m, err := a.Do(t.Context(), req, mad.Retry{Timeout: 2500 * time.Millisecond, Tries: 4})
		done <- result{m, err}
	}()
	b := <-f.wrote
	order := binary.NativeEndian
	if order.Uint32(b) != 7 || order.Uint32(b[8:]) != 2500 || order.Uint32(b[12:]) != 3 || order.Uint16(b[56:]) != 5 {
		t.Errorf("agent %d, timeout %d, retries %d, P_Key %d", order.Uint32(b), order.Uint32(b[8:]), order.Uint32(b[12:]), order.Uint16(b[56:]))
	}
	want := []byte{0, 0, 0, 1, 0x80, 1, 0, 0, 0x12, 0x34, 3, 2, 1, 4, 64, 7, 0xfe, 0x80}
	if got := b[20 : 20+len(want)]; string(got) != string(want) {
		t.Errorf("% x\n% x", got, want)
	}
	if b[51] != 9 || binary.BigEndian.Uint32(b[52:]) != 0xabcde || len(b) != headerSize+mad.Size {
		t.Errorf("% x", b[:headerSize])
	}
	if req.Data.TID() != 0 {
		t.Error("the caller's request was changed")
	}
	// The kernel replaces the high half of the transaction ID.
	resp := mad.MAD(append([]byte(nil), b[headerSize:]...))
	resp.SetMethod(mad.GetResp)
	resp.SetTID(resp.TID()&0xffffffff | 0x77<<32)
	answer := received(7, 0, resp)
	copy(answer[20:], b[20:56])
	clear(answer[24:28]) // as Linux does
	f.reads <- answer
	r := <-done
	if r.err != nil || r.m.Addr.LID != 0x1234 || r.m.Addr.QPN != 1 || r.m.Addr.QKey != mad.QKeyGSI || *r.m.Addr.GRH != *req.Addr.GRH {
		t.Errorf("%+v, %v", r.m, r.err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestHostileKernel sends invalid messages. The agent must still work afterwards.
func TestHostileKernel(t *testing.T) {
	f := newFake(accept())
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB, Methods: mad.Methods(mad.Get)})
	good := mad.New(mad.ClassPing, mad.Get, 0, 9)
	late := mad.New(mad.ClassPing, mad.GetResp, 0, 0)
	for _, b := range [][]byte{
		{}, make([]byte, headerSize-1), received(99, 0, good), received(7, 0, nil), received(7, 0, good[:23]),
		received(7, uint32(unix.ETIMEDOUT), good[:23]), received(7, uint32(unix.ETIMEDOUT), late[:24]), received(7, 0, late),
		received(7, 0, good),
	} {
		f.reads <- b
	}
	m, err := a.Receive(t.Context())
	if err != nil || m.Data.Modifier() != 9 {
		t.Errorf("%+v, %v", m, err)
	}
	// The queue of requests is bounded.
	for range receiveQueue + 100 {
		f.reads <- received(7, 0, good)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestLongMessage reads a message that needs a larger buffer.
func TestLongMessage(t *testing.T) {
	f := newFake(accept())
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassSA, Methods: mad.Methods(mad.GetMulti)})
	long := append(mad.New(mad.ClassSA, mad.GetMulti, 0, 0), make([]byte, 3<<20)...)
	long[len(long)-1] = 5
	f.reads <- received(7, 0, long)
	f.reads <- received(7, 0, long[:300])
	for _, want := range []int{len(long), 300} {
		if m, err := a.Receive(t.Context()); err != nil || len(m.Data) != want {
			t.Errorf("%v", err)
		}
	}
	// A short RMPP message has its length in its header.
	f.reads <- received(7, 0, long[:100])
	if m, err := a.Receive(t.Context()); err != nil || len(m.Data) != mad.Size {
		t.Errorf("%v", err)
	}
	// An invalid length ends the port instead of a loop of reads.
	bad := received(7, 0, long)
	binary.NativeEndian.PutUint32(bad[16:], 10)
	f.reads <- bad
	if _, err := a.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), "10 bytes") {
		t.Errorf("%v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestQueuedBytes fills the queue of an agent with long requests. Together they have at most the length
// of one message.
func TestQueuedBytes(t *testing.T) {
	var a agent
	a.init("mlx5_0", 1, mad.AgentConfig{Class: mad.ClassSA}, 4<<20)
	for _, round := range []struct{ sizes, want []int }{
		{[]int{3 << 20, 2 << 20, mad.Size}, []int{3 << 20, mad.Size}},
		{[]int{4 << 20, mad.Size}, []int{4 << 20}},
	} {
		for _, size := range round.sizes {
			m := make(mad.MAD, size)
			m.SetMethod(mad.GetMulti)
			a.deliver(&mad.Message{Data: m})
		}
		if len(a.receive) != len(round.want) {
			t.Errorf("of %v bytes %d requests are queued", round.sizes, len(a.receive))
		}
		for _, want := range round.want {
			if m, err := a.Receive(t.Context()); err != nil || len(m.Data) != want {
				t.Errorf("%d bytes: %v", want, err)
			}
		}
	}
}

// announce returns a message whose header announces a length, in place of that of data.
func announce(length int, data []byte) []byte {
	b := received(7, 0, data)
	binary.NativeEndian.PutUint32(b[16:], uint32(headerSize+length))
	return b
}

// TestMessageLimit receives messages beyond the limit. Their requests must fail, and all others must
// get their responses.
func TestMessageLimit(t *testing.T) {
	f := newFake(accept())
	f.config.MaxMessage = 1 << 20
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassSA, Methods: mad.Methods(mad.GetMulti)})
	type result struct {
		m   *mad.Message
		err error
	}
	do := func() (mad.MAD, chan result) {
		done := make(chan result, 1)
		go func() {
			m, err := a.Do(t.Context(), &mad.Message{Data: mad.New(mad.ClassSA, mad.GetTable, mad.AttrNodeRecord, 0)}, mad.Retry{Timeout: time.Hour})
			done <- result{m, err}
		}()
		response := mad.MAD((<-f.wrote)[headerSize:])
		response.SetMethod(mad.GetTableResp)
		return response, done
	}
	for _, size := range []int{1<<20 + 1, 900 << 20} {
		first, failed := do()
		second, done := do()
		f.reads <- announce(size, first)
		request := mad.New(mad.ClassSA, mad.GetMulti, 0, 0)
		request.SetTID(second.TID())
		f.reads <- announce(size, request) // must not end the second request
		f.reads <- received(7, 0, second)
		r := <-failed
		var tooLong *TooLongError
		if !errors.As(r.err, &tooLong) || tooLong.Size != int64(size) || tooLong.Limit != 1<<20 || !errors.Is(r.err, unix.EMSGSIZE) {
			t.Errorf("%d bytes: %v", size, r.err)
		}
		if r := <-done; r.err != nil {
			t.Errorf("the request after that of %d bytes: %v", size, r.err)
		}
	}
	// A message at the limit arrives.
	long, done := do()
	f.reads <- received(7, 0, append(long, make([]byte, 1<<20-len(long))...))
	if r := <-done; r.err != nil || len(r.m.Data) != 1<<20 {
		t.Errorf("a message at the limit: %v", r.err)
	}
	// The limit holds for messages to send, too.
	var tooLong *TooLongError
	if err := a.Send(t.Context(), &mad.Message{Data: make(mad.MAD, 1<<20+1)}); !errors.As(err, &tooLong) {
		t.Errorf("send: %v", err)
	}
	// A message that one read can't return ends the port, because it blocks all others.
	f.reads <- announce(maxRead, long)
	if _, err := a.Receive(t.Context()); !errors.Is(err, unix.EMSGSIZE) || !strings.Contains(err.Error(), "1073741888 bytes") {
		t.Errorf("%v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnnouncedMemory announces long messages and sends short ones. They must take no memory of the
// announced length.
func TestAnnouncedMemory(t *testing.T) {
	f := newFake(accept())
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassSA, Methods: mad.Methods(mad.GetMulti)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 8 {
		f.reads <- announce(DefaultMaxMessage, mad.New(mad.ClassSA, mad.GetMulti, 0, 0))
		if m, err := a.Receive(t.Context()); err != nil || len(m.Data) != mad.Size {
			t.Errorf("%v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > DefaultMaxMessage/2 {
		t.Errorf("8 short messages took %d bytes", used)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestBuffer checks that a buffer whose content is lost takes one sinkSize of memory, and that others
// keep what is written.
func TestBuffer(t *testing.T) {
	for _, sink := range []bool{false, true} {
		const n = 3*sinkSize + 5
		b, err := newBuffer(n, sink)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.bytes) != n {
			t.Errorf("%d bytes, not %d", len(b.bytes), n)
		}
		for i := range 4 {
			b.bytes[i*sinkSize+4] = byte(i + 1)
		}
		for i := range 4 {
			want := byte(i + 1)
			if sink {
				want = 4
			}
			if got := b.bytes[i*sinkSize+4]; got != want {
				t.Errorf("sink %t: byte %d is %d, not %d", sink, i*sinkSize+4, got, want)
			}
		}
		if err := b.free(); err != nil {
			t.Error(err)
		}
	}
}

// TestKernelTimeouts sends requests to a kernel that reports a timeout, and to one that reports nothing.
func TestKernelTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(accept())
		p := f.open(t)
		a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassPerf})
		req := &mad.Message{Data: mad.New(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0)}
		failed := make(chan error)
		do := func(ctx context.Context) {
			go func() {
				_, err := a.Do(ctx, req, mad.Retry{})
				failed <- err
			}()
		}
		do(t.Context())
		f.reads <- received(7, uint32(unix.ETIMEDOUT), (<-f.wrote)[headerSize:][:24])
		var timeout interface{ Timeout() bool }
		if err := <-failed; !errors.Is(err, mad.ErrTimeout) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
		do(t.Context())
		f.reads <- received(7, uint32(unix.ENETUNREACH), (<-f.wrote)[headerSize:][:24])
		if err := <-failed; !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("%v", err)
		}
		do(t.Context())
		<-f.wrote
		if err := <-failed; !errors.Is(err, mad.ErrTimeout) {
			t.Errorf("a silent kernel: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		do(ctx)
		<-f.wrote
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRemoved ends the file while calls wait.
func TestRemoved(t *testing.T) {
	f := newFake(accept())
	p := f.open(t)
	a := mustRegister(t, p, mad.AgentConfig{Class: mad.ClassPerf})
	failed := make(chan error)
	go func() {
		_, err := a.Do(t.Context(), &mad.Message{Data: mad.New(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0)}, mad.Retry{Timeout: time.Hour})
		failed <- err
	}()
	<-f.wrote
	f.reads <- nil
	if err := <-failed; !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("%v", err)
	}
	if err := a.Send(t.Context(), &mad.Message{Data: mad.New(mad.ClassPerf, mad.Get, 0, 0)}); !errors.Is(err, unix.EIO) {
		t.Errorf("%v", err)
	}
	// Nothing would read the answers of another agent.
	if _, err := p.Register(mad.AgentConfig{Class: mad.ClassSA}); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("Register: %v", err)
	}
	if err := errors.Join(p.Close(), func() error {
		if err := p.Close(); !errors.Is(err, net.ErrClosed) {
			return errors.Join(errors.New("second Close"), err)
		}
		return nil
	}()); err != nil {
		t.Error(err)
	}
}

// TestRegisterErrors registers agents with a kernel that refuses them.
func TestRegisterErrors(t *testing.T) {
	for _, test := range []struct {
		errno  unix.Errno
		config mad.AgentConfig
		want   error
		text   string
	}{
		{unix.EINVAL, mad.AgentConfig{Class: mad.ClassPing, Methods: mad.Methods(mad.Get)}, unix.EBUSY, "another agent"},
		{unix.EINVAL, mad.AgentConfig{Class: mad.ClassPing}, unix.EINVAL, "register"},
		{unix.ENOMEM, mad.AgentConfig{Class: mad.ClassSA}, unix.ENOMEM, "32 agents"},
		{unix.EPIPE, mad.AgentConfig{Class: mad.ClassSA}, unix.EPIPE, "removed"},
		{unix.EPERM, mad.AgentConfig{Class: mad.ClassSA}, unix.EPERM, "SA agent of port 1 on mlx5_0"},
	} {
		f := newFake(func(request uintptr, _ []byte) error {
			if request == enablePKey {
				return nil
			}
			return test.errno
		})
		p := f.open(t)
		if _, err := p.Register(test.config); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%v of %v: %v", test.errno, test.config.Class, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Register(test.config); !errors.Is(err, net.ErrClosed) {
			t.Errorf("of a closed port: %v", err)
		}
	}
}

// TestOldKernel registers an agent with the request of Linux before 3.17.
func TestOldKernel(t *testing.T) {
	var got []byte
	f := newFake(func(request uintptr, arg []byte) error {
		switch request {
		case registerAgent2:
			return unix.ENOTTY
		case registerAgent:
			got = append([]byte(nil), arg...)
			binary.NativeEndian.PutUint32(arg, 3)
		}
		return nil
	})
	p := f.open(t)
	mustRegister(t, p, mad.AgentConfig{Class: mad.ClassPing, OUI: 0x001405, RMPP: true, Methods: mad.Methods(mad.Get, mad.GetTable)})
	if len(got) != 28 || binary.NativeEndian.Uint32(got[4:]) != 1<<1|1<<0x12 || got[20] != 1 || got[21] != 0x32 || got[22] != 1 || got[24] != 0x14 || got[25] != 5 || got[26] != 1 {
		t.Errorf("% x", got)
	}
	if p.agents[3] == nil {
		t.Error("the agent's number is another")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// tree writes a sysfs tree and an empty directory of device nodes.
func tree(t *testing.T, files map[string]string) host {
	t.Helper()
	h := host{t.TempDir(), t.TempDir()}
	for name, text := range files {
		path := filepath.Join(h.sys, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestSysfs(t *testing.T) {
	h := tree(t, map[string]string{
		"class/infiniband_mad/abi_version":               "5",
		"class/infiniband_mad/umad1/ibdev":               "mlx5_0",
		"class/infiniband_mad/umad1/port":                "1",
		"class/infiniband_mad/issm1/ibdev":               "mlx5_0",
		"class/infiniband_mad/issm1/port":                "1",
		"class/infiniband_mad/umad0/ibdev":               "mlx5_1",
		"class/infiniband_mad/umad0/port":                "1",
		"class/infiniband_mad/umad7/ibdev":               "gone",
		"class/infiniband_mad/umad7/port":                "1",
		"class/infiniband_mad/umad8/ibdev":               "../escape",
		"class/infiniband_mad/umad8/port":                "1",
		"class/infiniband/mlx5_0/node_type":              "1: CA",
		"class/infiniband/mlx5_0/node_guid":              "0c42:a103:0000:1234",
		"class/infiniband/mlx5_0/sys_image_guid":         "0c42:a103:0000:1234",
		"class/infiniband/mlx5_0/fw_ver":                 "20.1.2",
		"class/infiniband/mlx5_0/hca_type":               "MT4123",
		"class/infiniband/mlx5_0/ports/1/state":          "4: ACTIVE",
		"class/infiniband/mlx5_0/ports/1/phys_state":     "5: LinkUp",
		"class/infiniband/mlx5_0/ports/1/lid":            "0x1f",
		"class/infiniband/mlx5_0/ports/1/lid_mask_count": "2",
		"class/infiniband/mlx5_0/ports/1/sm_lid":         "0x1",
		"class/infiniband/mlx5_0/ports/1/sm_sl":          "3",
		"class/infiniband/mlx5_0/ports/1/cap_mask":       "0x2651e848",
		"class/infiniband/mlx5_0/ports/1/rate":           "200 Gb/sec (4X HDR)",
		"class/infiniband/mlx5_0/ports/1/link_layer":     "InfiniBand",
		"class/infiniband/mlx5_0/ports/1/gids/0":         "fe80:0000:0000:0000:0c42:a103:0000:1235",
		"class/infiniband/mlx5_0/ports/1/gids/1":         "0000:0000:0000:0000:0000:0000:0000:0000",
		"class/infiniband/mlx5_0/ports/1/pkeys/0":        "0xffff",
		"class/infiniband/mlx5_0/ports/1/pkeys/1":        "0x8001",
		"class/infiniband/mlx5_1/ports/1/state":          "4: ACTIVE",
		"class/infiniband/mlx5_1/ports/1/link_layer":     "Ethernet",
		"class/infiniband/mlx5_1/ports/1/lid":            "not a number",
		"class/infiniband/mlx5_1/ports/1/gids/0":         "garbage",
	})
	all, err := h.ports()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	a := all[0]
	if a.Device != "mlx5_0" || a.NodeType != mad.NodeCA || a.NodeGUID != 0x0c42a10300001234 || a.PortGUID != 0x0c42a10300001235 || a.LID != 31 || a.LMC != 2 || a.SMLID != 1 ||
		a.SMSL != 3 || a.CapMask != 0x2651e848 || a.Rate != 200 || a.State != verbs.PortActive || a.PhysState != verbs.PhysLinkUp || len(a.GIDs) != 1 || len(a.PKeys) != 2 || a.PKeys[1] != 0x8001 {
		t.Errorf("%+v", a)
	}
	if b, err := choose(all, "", 0); err != nil || b.Device != "mlx5_0" {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := choose(all, "mlx5_1", 0); err != nil || b.Device != "mlx5_1" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, missing := range []struct {
		device string
		port   uint8
	}{{"mlx5_2", 0}, {"mlx5_0", 2}, {"", 3}} {
		if _, err := choose(all, missing.device, missing.port); !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("%+v: %v", missing, err)
		}
	}
	_, err = h.open(Config{}, "", 0)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--device="+h.dev+"/umad1") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(h.dev, "umad1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.open(Config{}, "", 0); err == nil || !strings.Contains(err.Error(), "not a umad node") {
		t.Errorf("a file in the place of a node: %v", err)
	}
	p := &port{host: h, node: node{device: "mlx5_1", port: 1}, file: newFake(func(uintptr, []byte) error { return unix.EPROTONOSUPPORT }), agents: make(map[uint32]*kernelAgent)}
	if _, err := p.Register(mad.AgentConfig{Class: mad.ClassDirected}); !errors.Is(err, mad.ErrNoSMI) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("subnet management of RoCE: %v", err)
	}
	if _, err := p.OpenSM(); !errors.Is(err, mad.ErrNoSMI) {
		t.Errorf("a port without issm: %v", err)
	}
	if _, err := (host{t.TempDir(), ""}).ports(); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "ib_umad") {
		t.Errorf("no module: %v", err)
	}
}

func TestNodeErrors(t *testing.T) {
	h := host{"", "/dev/infiniband"}
	for errno, want := range map[unix.Errno]string{unix.EACCES: "run as root", unix.EPERM: "--device=/dev/infiniband/umad0", unix.ENOENT: "--device=/dev/infiniband/umad0", unix.ENXIO: "removed"} {
		if err := nodeError(h, node{device: "mlx5_0"}, "umad0", &fs.PathError{Op: "open", Path: "/dev/infiniband/umad0", Err: errno}); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := nodeError(h, node{device: "mlx5_0"}, "issm0", unix.EAGAIN); !errors.Is(err, unix.EBUSY) {
		t.Errorf("%v", err)
	}
}

// FuzzDispatch reads arbitrary messages from the kernel and arbitrary packets from ibsim.
func FuzzDispatch(f *testing.F) {
	f.Add(received(7, 0, mad.New(mad.ClassSA, mad.Get, 1, 0)))
	f.Add(received(7, 110, mad.New(mad.ClassSA, mad.Get, 1, 0)[:24]))
	f.Add(make([]byte, packetLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		a := &kernelAgent{}
		a.init("mlx5_0", 1, mad.AgentConfig{Class: mad.ClassSA, Methods: mad.MethodMask{^uint64(0), ^uint64(0)}}, DefaultMaxMessage)
		p := &port{agents: map[uint32]*kernelAgent{7: a}}
		if len(b) >= headerSize {
			p.dispatch(b)
		}
		s := &simAgent{}
		s.init("ibsim0", 1, a.config, DefaultMaxMessage)
		sim := &simPort{agents: map[uint16]*simAgent{1: s}}
		if len(b) == packetLen {
			sim.dispatch(b)
		}
		for _, queue := range []chan *mad.Message{a.receive, s.receive} {
			select {
			case m := <-queue:
				if len(m.Data) < mad.Size {
					t.Errorf("%d bytes", len(m.Data))
				}
			default:
			}
		}
	})
}

// answers is a simulator that answers each control message with the next bytes.
type answers struct {
	net.Conn
	b []byte
}

func (a *answers) SetDeadline(time.Time) error { return nil }
func (a *answers) Write(b []byte) (int, error) { return len(b), nil }
func (a *answers) Close() error                { return nil }
func (a *answers) Read(b []byte) (n int, err error) {
	if len(a.b) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n = copy(b[:min(len(b), controlLen)], a.b)
	a.b = a.b[n:]
	return n, nil
}

// FuzzIBSimAnswers answers the control messages of a client with arbitrary bytes.
func FuzzIBSimAnswers(f *testing.F) {
	answer := func(kind uint32, data string) []byte {
		b := make([]byte, controlLen)
		binary.NativeEndian.PutUint32(b, simMagic)
		binary.NativeEndian.PutUint32(b[8:], kind)
		copy(b[16:], data)
		return b
	}
	all := slices.Concat(answer(simGetVendor, "vendor"), answer(simGetNodeInfo, "\x01\x01\x02"), answer(simGetPortInfo, "port"), answer(simGetPKeys, "\xff\xff"))
	f.Add(all)
	f.Add(slices.Concat(all[:controlLen], answer(simError, ""), all[controlLen:]))
	f.Add(slices.Concat(make([]byte, controlLen), all[:3*controlLen+5]))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &simPort{portGUID: 1, control: &answers{b: b}}
		a, err := p.Attr()
		if err == nil && (len(a.PKeys) != 32 || len(a.GIDs) != 1) {
			t.Errorf("%+v", a)
		}
		_ = p.setIsSM(true)
		_ = a.State.String() + a.PhysState.String() + a.NodeType.String()
	})
}

// TestDuplicateAnswers answers a request twice, which must not block the port's reader.
func TestDuplicateAnswers(t *testing.T) {
	var a agent
	a.init("mlx5_0", 1, mad.AgentConfig{Class: mad.ClassPerf}, DefaultMaxMessage)
	tid, reply, err := a.begin()
	if err != nil {
		t.Fatal(err)
	}
	m := &mad.Message{Data: mad.New(mad.ClassPerf, mad.GetResp, 0, 0)}
	m.Data.SetTID(uint64(tid))
	a.deliver(m)
	a.deliver(m)
	if len(reply) != 1 {
		t.Errorf("%d answers", len(reply))
	}
}
