package mooncake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/verbs"
)

// These are messages in the form of nodes in C++: one line, members in the order of their names.
const (
	wireDescriptor = `{"buffers":[{"addr":18446603336221196288,"length":1073741824,"lkey":[4660,1],"name":"cpu:0","rkey":[4294967295,2]}],` +
		`"devices":[{"gid":"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01","lid":0,"name":"mlx5_0"},{"gid":"fe:80:00:00:00:00:00:00:02:00:00:ff:fe:00:00:02","lid":21852,"name":"mlx5_1"}],` +
		`"name":"10.0.0.1:15428","priority_matrix":{"cpu:0":[["mlx5_0"],["mlx5_1"]]},"protocol":"rdma","tcp_data_port":0,"tcp_proto_version":2,"timestamp":"2026-11-27 09:00:00"}` + "\n"
	wireConnection = `{"local_gid":"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01","local_lid":0,"local_nic_path":"10.0.0.1:15428@mlx5_0","payload":"",` +
		`"peer_nic_path":"10.0.0.2:16001@mlx5_0","qp_num":[17,18],"ready_ack":false,"reply_msg":""}` + "\n"
)

// TestMessages checks that messages of nodes in C++ are decoded correctly.
func TestMessages(t *testing.T) {
	var d descriptor
	if err := errors.Join(decode([]byte(wireDescriptor), &d), d.check()); err != nil {
		t.Fatal(err)
	}
	d.Protocol = nil
	want := descriptor{Name: "10.0.0.1:15428",
		Devices: []device{{"mlx5_0", 0, "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01"}, {"mlx5_1", 21852, "fe:80:00:00:00:00:00:00:02:00:00:ff:fe:00:00:02"}},
		Buffers: []buffer{{"cpu:0", 18446603336221196288, 1 << 30, []uint32{1<<32 - 1, 2}, []uint32{4660, 1}}}}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, want %+v", d, want)
	}
	if got := d.path(1); got != "10.0.0.1:15428@mlx5_1" {
		t.Error(got)
	}
	if d.ServerName = "192.168.0.1:15428"; d.path(1) != "192.168.0.1:15428@mlx5_1" {
		t.Error(d.path(1))
	}

	k, body, err := readMessage(bytes.NewReader(frame(0, wireConnection)), maxMessage)
	if k != kindConnection || err != nil {
		t.Fatal(k, err)
	}
	var q handshake
	if err := errors.Join(decode(body, &q), q.checkPairs()); err != nil {
		t.Fatal(err)
	}
	no := false
	if want := (handshake{Local: "10.0.0.1:15428@mlx5_0", GID: "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01", Peer: "10.0.0.2:16001@mlx5_0",
		Pairs: []uint32{17, 18}, ReadyAck: &no}); !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, want %+v", q, want)
	}
	if b, err := message(kindConnection, &q); err != nil || int(binary.LittleEndian.Uint64(b)) != len(wireConnection)+1 {
		t.Errorf("%q, %v", b, err)
	}
	gid, err := parseGID(q.GID)
	if err != nil || gid.Addr().String() != "10.0.0.1" || formatGID(gid) != q.GID {
		t.Error(gid, err)
	}
}

// lies are descriptors that are refused, and what the error says.
var lies = map[string]struct{ old, replacement, want string }{
	"key too large":     {"4294967295", "4294967296", `member "buffers.rkey" is no uint32`},
	"beyond 64 bits":    {"18446603336221196288", "1" + strings.Repeat("0", 100_000), `member "buffers.addr" is no uint64`},
	"negative":          {"1073741824", "-1", `member "buffers.length" is no uint64`},
	"float":             {"1073741824", "1e9", `member "buffers.length" is no uint64`},
	"no length":         {"1073741824", "0", "0 bytes at"},
	"wraps":             {"1073741824", "9223372036854775807", "9223372036854775807 bytes at"},
	"fewer keys":        {"[4294967295,2]", "[2]", "1 keys for 2 devices"},
	"no device":         {`"devices":[{`, `"devices":[],"old":[{`, "0 devices"},
	"nameless device":   {`"name":"mlx5_0"`, `"name":""`, "name of device 0 has 0 bytes"},
	"long name":         {`"name":"mlx5_0"`, `"name":"` + strings.Repeat("x", maxName+1) + `"`, "name of device 0 has 1025 bytes"},
	"GID":               {"0a:00:00:01", "0a:00:00:1\x7f", "is no GID"},
	"short GID":         {"ff:ff:0a:00:00:01", "0a:00:00:01", "is no GID"},
	"LID":               {"21852", "65536", `member "devices.lid" is no uint16`},
	"other protocol":    {`"rdma"`, `"tcp"`, `protocol is "\"tcp\"", not rdma`},
	"protocols":         {`"rdma"`, `["tcp","cxl"]`, "not rdma"},
	"depth":             {`"rdma"`, strings.Repeat("[", 10_001), "exceeded max depth"},
	"array":             {`{"buffers"`, `[{"buffers"`, "not of the transfer protocol"},
	"control character": {`"rdma"`, "\x1b[2J", `'\x1b'`},
	"many devices":      {`"devices":[`, `"devices":[` + strings.Repeat(`{"name":"x","gid":"y"},`, maxDevices), "66 devices"},
}

// TestArrays checks that a message of any elements takes no more memory than one with as many as are
// allowed.
func TestArrays(t *testing.T) {
	for _, c := range []struct{ member, element, want string }{
		{"buffers", "{}", "more than 65536 elements"},
		{"buffers", "0", `member "buffers" is no`},
		{"buffers", "null", "more than 65536 elements"},
		{"protocol", `""`, "protocol has 6291460 bytes"},
	} {
		b := []byte(`{"` + c.member + `":[` + strings.Repeat(c.element+",", 2<<20) + c.element + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var d descriptor
		err := decode(b, &d)
		if err == nil {
			err = d.check()
		}
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.element, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d MiB for %d MiB of text", c.element, n>>20, len(b)>>20)
		}
	}
}

// TestSameBuffers checks that a descriptor with as many buffers as are allowed, in another order, is known again, and
// one is not in which a buffer has changed.
func TestSameBuffers(t *testing.T) {
	var old, now descriptor
	for i := range maxBuffers {
		old.Buffers = append(old.Buffers, buffer{Addr: uint64(i+1) << 12, Length: 1 << 12, RKeys: []uint32{uint32(i), 7}})
	}
	now.Buffers = slices.Clone(old.Buffers)
	slices.Reverse(now.Buffers)
	if !now.has(&old) {
		t.Error("the same buffers in another order")
	}
	for name, b := range map[string]buffer{
		"address": {Addr: 1, Length: 1 << 12, RKeys: []uint32{0, 7}},
		"length":  {Addr: 1 << 12, Length: 1<<12 + 1, RKeys: []uint32{0, 7}},
		"key":     {Addr: 1 << 12, Length: 1 << 12, RKeys: []uint32{0, 8}},
	} {
		if now.Buffers[maxBuffers-1] = b; now.has(&old) {
			t.Errorf("another %s was not noticed", name)
		}
	}
	now.Buffers = append(now.Buffers, old.Buffers[0])
	if !now.has(&old) {
		t.Error("a buffer more")
	}
	if devices := (&descriptor{Devices: []device{{Name: "mlx5_0"}}, Buffers: old.Buffers}); devices.has(&old) {
		t.Error("a device more was not noticed")
	}
}

// TestLies checks that each lie has one clear error, and nothing is dialed for it.
func TestLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1)
		e := w.engine(0)
		for name, lie := range lies {
			said := strings.Replace(wireDescriptor, lie.old, lie.replacement, 1)
			if said == wireDescriptor {
				t.Fatal(name)
			}
			l := w.listen("liar")
			go describeOnce(l, said)
			_, err := Open(t.Context(), e, "liar", w.config())
			_ = l.Close()
			if !errors.Is(err, transfer.ErrProtocol) && !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), lie.want) || len(err.Error()) > 600 ||
				strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s := w.engine(0); s == nil { // the engine of a liar's victim goes on
			t.Error("no engine")
		}
	})
}

// describeOnce answers one request with a descriptor.
func describeOnce(l net.Listener, text string) {
	s, err := l.Accept()
	if err != nil {
		return
	}
	defer s.Close()
	if _, _, err := readMessage(s, maxMessage); err == nil {
		_, _ = s.Write(frame(byte(kindMetadata), text))
	}
}

// endless is a stream that goes on for ever.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '['
	}
	e.read += len(b)
	return len(b), nil
}

// TestLengths checks that a message of 1 GiB is refused before it is read, and what a length promises
// is not allocated.
func TestLengths(t *testing.T) {
	for _, n := range []uint64{0, maxMessage + 1, 1 << 30, 1 << 63, 1<<64 - 1} {
		var rest endless
		if _, _, err := readMessage(io.MultiReader(bytes.NewReader(binary.LittleEndian.AppendUint64(nil, n)), &rest), maxMessage); !errors.Is(err, transfer.ErrProtocol) || rest.read > 0 {
			t.Errorf("%d bytes: %v, %d read", n, err, rest.read)
		}
	}
	short := binary.LittleEndian.AppendUint64(nil, maxAnswer)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := readMessage(bytes.NewReader(append(short, 1, '{')), maxAnswer); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

// TestStrangeStreams checks that streams that say nothing or anything keep nobody out, and the node
// goes on.
func TestStrangeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1, 1)
		client, server := w.engine(0), w.engine(1)
		memory := w.region(server, size, 1)
		n := w.node(server, "node", w.config(), memory)
		for range 300 { // silent
			if _, err := w.dial(t.Context(), "node"); err != nil {
				t.Fatal(err)
			}
		}
		dev := n.described.Devices[0]
		good := strings.NewReplacer("10.0.0.2:16001@mlx5_0", "node@"+dev.Name, "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01", dev.GID).Replace(wireConnection)
		for name, said := range map[string][]byte{
			"junk":         []byte("GET / HTTP/1.1\r\n\r\n"),
			"no JSON":      frame(0, "\x1b"),
			"null":         frame(0, "null"),
			"empty notify": frame(2, ""),
			"depth":        frame(0, strings.Repeat("[", 100_000)),
			"no pairs":     frame(0, strings.Replace(good, "17,18", "", 1)),
			"many pairs":   frame(0, strings.Replace(good, "17,18", "17"+strings.Repeat(",1", 100_000), 1)),
			"pair 0":       frame(0, strings.Replace(good, "17", "0", 1)),
			"pair 2^24":    frame(0, strings.Replace(good, "17", "16777216", 1)),
			"pair 2^32":    frame(0, strings.Replace(good, "17", "4294967296", 1)),
			"ready":        frame(0, strings.Replace(good, "false", "true", 1)),
			"no GID":       frame(0, strings.Replace(good, dev.GID, "", 1)),
			"other node":   frame(0, strings.Replace(good, "node@", "mode@", 1)),
			"own path":     frame(0, strings.Replace(good, "10.0.0.1:15428@mlx5_0", "", 1)),
		} {
			s, err := w.dial(t.Context(), "node")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = s.Write(said) }()
			b, err := io.ReadAll(s)
			var a handshake
			if err != nil || len(b) > 0 && (json.Unmarshal(b[9:], &a) != nil || a.Refusal == "" || len(a.Refusal) > 400) {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			_ = s.Close()
		}
		w.verify(w.open(client, "node", w.config()), client, memory.Bytes())
	})
}

// TestCrowd checks that the oldest connection makes room.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1)
		n := w.node(w.engine(0), "node", w.config())
		dev := n.described.Devices[0]
		for i := range maxEndpoints {
			k := endpointKey{0, strings.Repeat("x", i%50) + string(rune('0'+i))}
			n.endpoints[k] = new(endpoint)
			n.endpoints[k].ending.Init()
			n.oldest = append(n.oldest, k)
		}
		first := n.oldest[0]
		a := n.accept(&handshake{Local: "new@x", Peer: "node@" + dev.Name, GID: dev.GID, Pairs: []uint32{17}})
		if a.Refusal != "" || len(n.endpoints) != maxEndpoints || n.endpoints[first] != nil || len(a.Pairs) != 1 {
			t.Errorf("%+v, %d connections", a, len(n.endpoints))
		}
	})
}

// slowKernel holds the first modification of a queue pair, as Linux does while it looks for the peer's address.
type slowKernel struct {
	held, release chan struct{}
	modified      atomic.Bool
}

func (*slowKernel) Netlink() netlinkrdma.Kernel { return new(nltest.Kernel) }
func (*slowKernel) OpenCM() (kernel.CM, error)  { return nil, errors.ErrUnsupported }
func (*slowKernel) Owns(netip.Addr) bool        { return false }

func (k *slowKernel) OpenDevice(node string, number uint64) (ioctl.File, error) {
	for _, other := range kernel.Registered() {
		if other != k {
			f, err := other.OpenDevice(node, number)
			return &slowFile{f, k}, err
		}
	}
	return nil, fs.ErrNotExist
}

type slowFile struct {
	ioctl.File
	kernel *slowKernel
}

func (f *slowFile) Ioctl(r *ioctl.Request) error {
	if command, _ := r.Command(); command == abi.IB_USER_VERBS_CMD_MODIFY_QP && !f.kernel.modified.Swap(true) {
		close(f.kernel.held)
		<-f.kernel.release
	}
	return f.File.Ioctl(r)
}

// TestSlowConnect checks that a node answers others while the kernel connects a queue pair. Of two
// requests of a peer, the later one holds. Close waits for the kernel.
func TestSlowConnect(t *testing.T) {
	for name, closes := range map[string]bool{"replaced": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &slowKernel{held: make(chan struct{}), release: make(chan struct{})}
				t.Cleanup(kernel.Register(k))
				w := newWorld(t, kinds["mlx5"], 1)
				n := w.node(w.engine(0), "node", w.config())
				dev := n.described.Devices[0]
				connect := func(number uint32) string {
					return n.accept(&handshake{Local: "peer@x", Peer: "node@" + dev.Name, GID: dev.GID, Pairs: []uint32{number}}).Refusal
				}
				refused, closed := make(chan string, 1), make(chan error, 1)
				go func() { refused <- connect(17) }()
				<-k.held
				if !n.mu.TryLock() {
					close(k.release)
					t.Fatal("the node is locked")
				}
				n.mu.Unlock()
				if refusal := connect(18); refusal != "" {
					t.Error(refusal)
				}
				if closes {
					go func() { closed <- n.Close() }()
					synctest.Wait()
				}
				close(k.release)
				if refusal := <-refused; refusal == "" {
					t.Error("the earlier request has replaced the later one")
				}
				if !closes {
					if ep := n.endpoints[endpointKey{0, "peer@x"}]; ep == nil || ep.peers[0] != 18 {
						t.Errorf("%+v", ep)
					}
				} else if err := <-closed; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestDeadline checks that a node that does not answer is given up.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1)
		e := w.engine(0)
		l := w.listen("silent")
		closeLater(t, l)
		go func() {
			s, err := l.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, s)
			}
		}()
		if _, err := Open(t.Context(), e, "silent", w.config()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// FuzzMessage checks that any bytes are refused, or are within the limits.
func FuzzMessage(f *testing.F) {
	f.Add(frame(1, wireDescriptor))
	f.Add(frame(0, wireConnection))
	f.Add([]byte(wireConnection))
	for _, lie := range lies {
		if len(lie.replacement) < 1000 {
			f.Add(frame(1, strings.Replace(wireDescriptor, lie.old, lie.replacement, 1)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, body, err := readMessage(bytes.NewReader(b), maxMessage)
		if err != nil {
			return
		}
		var d descriptor
		if err := errors.Join(decode(body, &d), d.check()); err == nil {
			if len(d.Devices) == 0 || len(d.Devices) > maxDevices || len(d.Buffers) > maxBuffers || !d.has(&d) {
				t.Errorf("%s is %+v", body, d)
			}
			for _, x := range d.Buffers {
				if x.Addr+x.Length < x.Addr || len(x.RKeys) != len(d.Devices) {
					t.Errorf("%s is %+v", body, d)
				}
			}
		} else if len(err.Error()) > 1000 {
			t.Error(err)
		}
		var q handshake
		if decode(body, &q) == nil && q.checkPairs() == nil && (len(q.Pairs) == 0 || len(q.Pairs) > maxPairs) {
			t.Errorf("%s is %+v", body, q)
		}
	})
}
