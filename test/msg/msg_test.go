//go:build vm

package msg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// msgWay is one of the ways in which package msg connects.
type msgWay struct {
	name, address string
	cfg           msg.Config // with or without a pool
}

// overEach runs a test over siw or rxe, with connections that have everything to
// themselves, and with a pool.
func overEach(t *testing.T, link, address string, cfg msg.Config, test func(*testing.T, msgWay)) {
	t.Run("alone", func(t *testing.T) {
		kit.NoLeak(t)
		test(t, msgWay{"alone", address, cfg})
	})
	t.Run("pool", func(t *testing.T) {
		kit.NoLeak(t)
		dev := kit.Must(uverbs.Open(link))(t)
		kit.CloseLater(t, dev)
		pool := kit.Must(msg.NewPool(dev, 8, &cfg))(t)
		kit.CloseLater(t, pool)
		cfg := cfg
		cfg.Pool = pool
		test(t, msgWay{"pool", address, cfg})
	})
}

// overSiw and overRxe are overEach on one of the fabrics.
func overSiw(t *testing.T, cfg msg.Config, test func(*testing.T, msgWay)) {
	kit.Fabric(t)
	overEach(t, kit.DummyLink, kit.DummyIPv4+":0", cfg, test)
}

func overRxe(t *testing.T, cfg msg.Config, test func(*testing.T, msgWay)) {
	kit.RxeFabric(t)
	overEach(t, kit.RxeLink, kit.RxeIPv4+":0", cfg, test)
}

// msgPair makes two connected ends, the first of which dialled. They are closed when the
// test ends.
func msgPair(t *testing.T, w msgWay) (a, b *msg.Conn) {
	t.Helper()
	a, b = msgConnect(t, w)
	t.Cleanup(func() { bothClose(t, a, b) })
	return a, b
}

func msgConnect(t *testing.T, w msgWay) (a, b *msg.Conn) {
	t.Helper()
	ctx := withPatience(t)
	ln := kit.Must((&msg.ListenConfig{Config: w.cfg}).Listen(t.Context(), w.address))(t)
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		var err error
		b, err = ln.Accept(ctx)
		accepted <- err
	}()
	a, err := (&msg.Dialer{Config: w.cfg}).Dial(ctx, ln.Addr().String())
	if errAccept := <-accepted; err != nil || errAccept != nil {
		t.Fatalf("dial: %v, accept: %v", err, errAccept)
	}
	return a, b
}

// bothClose closes two ends at once.
func bothClose(t *testing.T, a, b *msg.Conn) {
	t.Helper()
	errs := make(chan error, 2)
	for _, c := range []*msg.Conn{a, b} {
		go func() { errs <- c.Shutdown(context.Background()) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// withPatience is a context that ends with the test, or when it hangs.
func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// sendMsg sends one message.
func sendMsg(t *testing.T, c *msg.Conn, b []byte) {
	t.Helper()
	kit.OK(t, c.Send(withPatience(t), b))
}

// recvMsg receives one message, of which it returns a copy.
func recvMsg(t *testing.T, c *msg.Conn) []byte {
	t.Helper()
	m := kit.Must(c.Recv(withPatience(t)))(t)
	defer m.Release()
	return append([]byte{}, m.Bytes()...)
}

func TestMsg(t *testing.T)    { overSiw(t, msg.Config{}, msgBoth) }
func TestRxeMsg(t *testing.T) { overRxe(t, msg.Config{}, msgBoth) }

// msgBoth goes through all that a pair of ends can do, over siw and rxe.
func msgBoth(t *testing.T, w msgWay) {
	for name, test := range map[string]func(*testing.T, msgWay){
		"ping-pong": msgPingPong, "acceptor first": msgAcceptorFirst, "flood": msgFlood, "large": msgLarge,
		"one-sided": msgOneSided, "batch": msgBatch, "cancel": msgCancel, "end": msgEnd,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// Messages of each size come back as they were, in order, also without a copy.
func msgPingPong(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	var echo sync.WaitGroup
	echo.Go(func() {
		for {
			m, err := b.Recv(t.Context())
			if err != nil {
				if err != io.EOF {
					t.Error("the echo:", err)
				}
				return
			}
			if err := b.Send(t.Context(), m.Bytes()); err != nil {
				t.Error("the echo:", err)
			}
			m.Release()
		}
	})
	for i := range 60 {
		want := bytes.Repeat([]byte{byte(i)}, []int{0, 1, 64, 4096, 4097, 10000}[i%6])
		buf := kit.Must(a.Alloc(withPatience(t), len(want)))(t)
		copy(buf.Bytes(), want)
		kit.OK(t, a.SendBuffer(withPatience(t), buf))
		if got := recvMsg(t, a); !bytes.Equal(got, want) {
			t.Fatalf("message %d: %d bytes came back of %d", i, len(got), len(want))
		}
	}
	kit.OK(t, a.Close())
	echo.Wait()
}

// Over iWARP the side that dialled has to send first. Users need not know.
func msgAcceptorFirst(t *testing.T, w msgWay) {
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a, b := msgPair(t, w)
			sendMsg(t, b, []byte("first"))
			if got := recvMsg(t, a); string(got) != "first" {
				t.Errorf("%q", got)
			}
		})
	}
}

// Both ends send as fast as they can, and one is slow to receive.
func msgFlood(t *testing.T, w msgWay) {
	const count = 400
	a, b := msgPair(t, w)
	ctx := withPatience(t)
	var all sync.WaitGroup
	for _, c := range []*msg.Conn{a, b} {
		all.Go(func() {
			text := make([]byte, 100)
			for i := range count {
				binary.NativeEndian.PutUint64(text, uint64(i))
				if err := c.Send(ctx, text); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for i := range count {
				m, err := c.Recv(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if got := binary.NativeEndian.Uint64(m.Bytes()); got != uint64(i) {
					t.Errorf("message %d came as %d", got, i)
				}
				if c == b {
					slowly()
				}
				m.Release()
			}
		})
	}
	all.Wait()
}

// slowly keeps the reader busy for a while.
func slowly() {
	b := make([]byte, 16<<10)
	for i := range b {
		b[i] = byte(i)
	}
}

// A batch longer than the send queue reads a table in blocks, also if an operation of it is one that the device does
// not know, or that the peer refuses. The latter ends the connection.
func msgBatch(t *testing.T, w msgWay) {
	a, b := msgConnect(t, w)
	defer b.Close()
	defer a.Close()
	const blocks, block = 150, 4096
	table := kit.Must(b.Register(make([]byte, blocks*block), msg.MayRead|msg.MayWrite|msg.MayAtomic))(t)
	copyOf := kit.Must(a.Register(make([]byte, blocks*block), 0))(t)
	for i := range table.Bytes() {
		table.Bytes()[i] = byte(i*7 + i/block)
	}
	ops := make([]msg.Op, blocks)
	for i := range ops {
		ops[i] = msg.Op{Opcode: verbs.OpRDMARead, Local: copyOf.Span(i*block, block), Remote: table.Remote(), Offset: uint64(i * block)}
	}
	for range 2 {
		clear(copyOf.Bytes())
		kit.OK(t, a.Do(withPatience(t), ops))
		if !bytes.Equal(copyOf.Bytes(), table.Bytes()) {
			t.Error("the READs read something else")
		}
	}
	was := binary.NativeEndian.Uint64(table.Bytes())
	mixed := []msg.Op{
		{Opcode: verbs.OpRDMAWrite, Local: copyOf.Span(8, 8), Remote: table.Remote(), Offset: 16},
		{Opcode: verbs.OpFetchAdd, Remote: table.Remote(), CompareAdd: 1},
		{Opcode: verbs.OpRDMARead, Local: copyOf.Span(24, 8), Remote: table.Remote(), Offset: 16},
	}
	err := a.Do(withPatience(t), mixed)
	if mixed[0].Err != nil || mixed[2].Err != nil || !bytes.Equal(copyOf.Bytes()[24:32], copyOf.Bytes()[8:16]) {
		t.Error(mixed[0].Err, mixed[2].Err)
	}
	if a.CM().Device().Info().Driver == verbs.DriverSIW {
		if !errors.Is(err, errors.ErrUnsupported) || mixed[1].Err == nil {
			t.Error("atomic operation over siw:", err)
		}
	} else if err != nil || mixed[1].Old != was {
		t.Error(mixed[1].Old, was, err)
	}
	ops[100].Remote.RKey ^= 0xff00
	if err := a.Do(withPatience(t), ops); err == nil || ops[100].Err == nil || ops[99].Err != nil {
		t.Error(err, ops[99].Err, ops[100].Err)
	}
}

func msgLarge(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	text := make([]byte, 1<<20+1<<19)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	var both sync.WaitGroup
	for _, c := range []*msg.Conn{a, b} {
		both.Go(func() {
			for range 3 {
				if err := c.Send(withPatience(t), text); err != nil {
					t.Error(err)
				}
			}
		})
		both.Go(func() {
			for range 3 {
				m, err := c.Recv(withPatience(t))
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(m.Bytes(), text) {
					t.Error("not what was sent")
				}
				m.Release()
			}
		})
	}
	both.Wait()
}

func msgOneSided(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	theirs := kit.Must(b.Register(make([]byte, 1<<16), msg.MayRead|msg.MayWrite))(t)
	sendMsg(t, b, kit.Must(theirs.Remote().MarshalBinary())(t))
	var remote msg.RemoteRegion
	kit.OK(t, remote.UnmarshalBinary(recvMsg(t, a)))
	ours := kit.Must(a.Register(make([]byte, 1<<16), 0))(t)
	ctx := withPatience(t)
	copy(ours.Bytes(), "written")
	kit.OK(t, a.Write(ctx, remote, 100, ours.Span(0, 7)))
	kit.OK(t, a.Read(ctx, ours.Span(10, 9), remote, 99)) // which the WRITE comes before
	if got := ours.Bytes()[10:19]; string(got) != "\x00written\x00" || string(theirs.Bytes()[100:107]) != "written" {
		t.Errorf("%q", got)
	}
	if err := a.Write(ctx, remote, remote.Length-6, ours.Span(0, 7)); !errors.Is(err, msg.ErrOutOfBounds) {
		t.Error(err)
	}
	kit.OK(t, ours.Close())
	kit.OK(t, theirs.Close())
}

// A call that a context ends has sent nothing and received nothing.
func msgCancel(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	for i := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { _, err := b.Recv(ctx); got <- err }()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		sendMsg(t, a, []byte{byte(i)})
		if b := recvMsg(t, b); b[0] != byte(i) {
			t.Errorf("message %d came as %d", b[0], i)
		}
	}
	// Nobody receives, so the window fills.
	ctx, cancel := context.WithCancel(t.Context())
	sent, stuck := 0, make(chan error, 1)
	go func() {
		for {
			if err := a.Send(ctx, []byte{byte(sent)}); err != nil {
				stuck <- err
				return
			}
			sent++
		}
	}()
	kit.Until(t, "a Send that waits for credit", func() bool { return kit.Parked("(*Conn).sendBuffer") })
	cancel()
	if err := <-stuck; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for i := range sent {
		if b := recvMsg(t, b); b[0] != byte(i) {
			t.Errorf("message %d came as %d", b[0], i)
		}
	}
	sendMsg(t, a, []byte("last"))
	if got := recvMsg(t, b); string(got) != "last" {
		t.Errorf("%q", got)
	}
}

// The one end closes behind its messages, one of which is large. The other one receives
// them, then io.EOF.
func msgEnd(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	for i := range 10 {
		sendMsg(t, a, make([]byte, i))
	}
	sendMsg(t, a, make([]byte, 100000))
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	for i := range 10 {
		if got := recvMsg(t, b); len(got) != i {
			t.Errorf("message %d has %d bytes", i, len(got))
		}
	}
	if got := recvMsg(t, b); len(got) != 100000 {
		t.Errorf("the last message has %d bytes", len(got))
	}
	for range 2 {
		if _, err := b.Recv(withPatience(t)); err != io.EOF {
			t.Error(err)
		}
	}
	kit.OK(t, <-closed)
	if err := b.Send(withPatience(t), nil); !errors.Is(err, msg.ErrPeerClosed) {
		t.Error(err)
	}
	if _, err := a.Recv(withPatience(t)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
