//go:build vm

package msg

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
)

func TestMsgPool(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	msgHundred(t, kit.DummyLink, kit.DummyIPv4+":0")
}

func TestRxeMsgPool(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	msgHundred(t, kit.RxeLink, kit.RxeIPv4+":0")
}

// msgHundred has a hundred connections in two pools, which all talk at once. They take
// neither descriptors nor goroutines. The next connection is refused, and one that
// closes makes room.
func msgHundred(t *testing.T, link, address string) {
	const conns = 100
	kit.NoLeak(t)
	dev := kit.Must(uverbs.Open(link))(t)
	kit.CloseLater(t, dev)
	client, server := msg.Config{Window: 4, EagerSize: 256}, msg.Config{Window: 4, EagerSize: 256}
	client.Pool = kit.Must(msg.NewPool(dev, conns+1, &client))(t)
	kit.CloseLater(t, client.Pool)
	server.Pool = kit.Must(msg.NewPool(dev, conns, &server))(t)
	kit.CloseLater(t, server.Pool)
	ln := kit.Must((&msg.ListenConfig{Config: server}).Listen(t.Context(), address))(t)
	kit.CloseLater(t, ln)
	connectOne := func() (a, b *msg.Conn, err error) {
		ctx, cancel := context.WithCancel(withPatience(t))
		defer cancel()
		accepted := make(chan error, 1)
		go func() {
			var err error
			for {
				// The dial that is refused below is repeated until it is cancelled, and may have left a request.
				if b, err = ln.Accept(ctx); err == nil || errors.Is(err, msg.ErrPoolFull) || ctx.Err() != nil {
					break
				}
			}
			if err != nil {
				cancel()
			}
			accepted <- err
		}()
		a, err = (&msg.Dialer{Config: client}).Dial(ctx, ln.Addr().String())
		return a, b, errors.Join(err, <-accepted)
	}
	var ends [][2]*msg.Conn
	add := func() {
		t.Helper()
		a, b, err := connectOne()
		kit.OK(t, err)
		ends = append(ends, [2]*msg.Conn{a, b})
	}
	add() // the first one makes what rdmacm shares among all
	before, goroutines := kit.Descriptors(t), runtime.NumGoroutine()
	free, begin := freeMemory(t), time.Now()
	for len(ends) < conns {
		add()
	}
	t.Logf("%v a connection; both ends take %d bytes, the kernel's included", time.Since(begin)/(conns-1), (free-freeMemory(t))/(conns-1))
	kit.Until(t, "no more goroutines", func() bool { return runtime.NumGoroutine() <= goroutines+2 }) // a keeper of each pool
	if n := kit.Descriptors(t); n > before {
		t.Errorf("%d descriptors, with one connection %d", n, before)
	}
	if _, _, err := connectOne(); !errors.Is(err, msg.ErrPoolFull) {
		t.Error("one too many:", err)
	}
	var all sync.WaitGroup
	for _, pair := range ends {
		all.Go(func() {
			for i := range 10 {
				if err := pair[0].Send(withPatience(t), []byte{byte(i)}); err != nil {
					t.Error(err)
				}
				m, err := pair[1].Recv(withPatience(t))
				if err != nil || m.Bytes()[0] != byte(i) {
					t.Error(err)
					return
				}
				m.Release()
			}
		})
	}
	all.Wait()
	if err := client.Pool.Close(); !errors.Is(err, msg.ErrInUse) {
		t.Error("a pool in use:", err)
	}
	bothClose(t, ends[0][0], ends[0][1])
	ends = ends[1:]
	add()
	for _, pair := range ends {
		all.Go(func() { bothClose(t, pair[0], pair[1]) })
	}
	all.Wait()
}

// freeMemory returns the guest's free memory in bytes, after Go has returned its own.
func freeMemory(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	for line := range strings.Lines(string(kit.Must(os.ReadFile("/proc/meminfo"))(t))) {
		if rest, ok := strings.CutPrefix(line, "MemFree:"); ok {
			return 1024 * kit.Must(strconv.Atoi(strings.Fields(rest)[0]))(t)
		}
	}
	t.Fatal("/proc/meminfo has no line for free memory")
	return 0
}
