package mooncake

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/verbs"
)

const size = 100_000

// TestSegment checks that a node of this package is read, written and notified, over each number of
// devices.
func TestSegment(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 2)
		client, server := w.engine(0), w.engine(1)
		cfg := w.config()
		notes := make(chan string, 1)
		cfg.Notified = func(name, message string) { notes <- name + ": " + message }
		memory := w.region(server, size, 1)
		n := w.node(server, "10.0.0.2:15001", cfg, memory)
		s := w.open(client, "10.0.0.2:15001", w.config())
		w.verify(s, client, memory.Bytes())
		if err := s.Notify(t.Context(), "me", "it has landed"); err != nil {
			t.Error(err)
		} else if got := <-notes; got != "me: it has landed" {
			t.Error(got)
		}
		if _, _, err := s.At(s.Buffers()[0].Addr+1, size); !errors.Is(err, transfer.ErrOutOfBounds) {
			t.Error(err)
		}

		// A region that is no longer published is not there for those who open the segment now.
		if err := n.Withdraw(t.Context(), memory); err != nil {
			t.Error(err)
		}
		if b := w.open(client, "10.0.0.2:15001", w.config()).Buffers(); len(b) != 0 {
			t.Error(b)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestPublishMany checks that a segment takes as many regions as fit in a message, that Withdraw makes room, and that
// the memory a Publish takes does not grow with the number of regions.
func TestPublishMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.RXE}, 2)
		e := w.engine(0)
		r := w.region(e, 64, 0)
		n := w.node(e, "10.0.0.2:15001", w.config())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := error(nil)
		count := -1
		for ; err == nil && count < maxBuffers; count++ {
			err = n.Publish(t.Context(), r)
		}
		runtime.ReadMemStats(&after)
		if !errors.Is(err, syscall.EMSGSIZE) {
			t.Fatal(err)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) / uint64(count); got > 4<<10 {
			t.Errorf("%d calls of Publish took %d bytes each", count, got)
		}
		n.mu.Lock()
		b, err := message(kindMetadata, n.snapshot())
		one := n.described.Buffers[0].size()
		n.mu.Unlock()
		if err != nil || len(b)-8 > maxMessage || len(b)-8+one <= maxMessage {
			t.Errorf("%d regions take %d bytes, and another one %d: %v", count, len(b)-8, one, err)
		}
		if err := n.Withdraw(t.Context(), r); err != nil {
			t.Error(err)
		}
		if err := n.Publish(t.Context(), r); err != nil {
			t.Error(err)
		}
		if err := n.Publish(t.Context(), r); !errors.Is(err, syscall.EMSGSIZE) {
			t.Error(err)
		}
	})
}

// TestMetadataServer checks that names are found by a server, and forgotten with the node.
func TestMetadataServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["mlx5"], 1, 1)
		client, server := w.engine(0), w.engine(1)
		cfg := w.config()
		cfg.Metadata, cfg.HTTP = "http://10.0.0.9:8080/metadata", newHTTP(w)
		of := *cfg
		of.Address = "10.0.0.2:12001"
		memory := w.region(server, size, 1)
		w.metadata["mooncake/rpc_meta/decode-7"] = []byte(`{"ip_or_host_name":"10.0.0.7","rpc_port":1}`) // of an earlier run
		n := w.node(server, "decode-7", &of, memory)
		w.verify(w.open(client, "decode-7", cfg), client, memory.Bytes())
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(w.metadata) != 0 {
			t.Error(w.metadata)
		}
		if _, err := Open(t.Context(), client, "decode-7", cfg); err == nil || !strings.Contains(err.Error(), `key "mooncake/ram/decode-7" of the metadata server: GET: status 404`) {
			t.Error(err)
		}
	})
}

// TestRestart checks that a program that comes back with other memory is noticed.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1, 1)
		client, server := w.engine(0), w.engine(1)
		memory := w.region(server, size, 1)
		n := w.node(server, "10.0.0.2:15001", w.config(), memory)
		s := w.open(client, "10.0.0.2:15001", w.config())
		w.verify(s, client, memory.Bytes())
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		w.node(server, "10.0.0.2:15001", w.config(), w.region(server, size/2, 2))
		local := w.region(client, size, 3)
		if err := do(t.Context(), s, verbs.OpRDMARead, local, s.Buffers()[0]); !errors.Is(err, transfer.ErrStale) {
			t.Error(err)
		}
	})
}

// TestReconnect checks that a node that has lost its connections gets new ones, and the batch goes
// on.
func TestReconnect(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1)
		client, server := w.engine(0), w.engine(1)
		memory := w.region(server, size, 1)
		n := w.node(server, "10.0.0.2:15001", w.config(), memory)
		s := w.open(client, "10.0.0.2:15001", w.config())
		for range 3 {
			n.mu.Lock()
			for k := range n.endpoints {
				n.drop(k)
			}
			n.mu.Unlock()
			w.verify(s, client, memory.Bytes())
		}
	})
}

// TestEngineClose checks that Close of the engine ends its nodes and segments.
func TestEngineClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1, 1)
		client, server := w.engine(0), w.engine(1)
		memory := w.region(server, size, 1)
		n := w.node(server, "10.0.0.2:15001", w.config(), memory)
		s := w.open(client, "10.0.0.2:15001", w.config())
		w.verify(s, client, memory.Bytes())
		for _, e := range []*transfer.Engine{server, client} {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := n.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := do(t.Context(), s, verbs.OpRDMARead, memory, s.Buffers()[0]); !errors.Is(err, net.ErrClosed) && !errors.Is(err, transfer.ErrOutOfBounds) {
			t.Error(err)
		}
		if _, err := NewNode(t.Context(), server, "x", nil); err == nil {
			t.Error("a node of a closed engine")
		}
	})
}
