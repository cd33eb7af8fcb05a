package mooncake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cxx is a strict model of a node in C++: it answers one stream at a time, member by member in the order of jsoncpp, and
// counts what a node in C++ would not understand.
type cxx struct {
	t      *testing.T
	w      *world
	name   string
	device string
	pairs  int // MC_NUM_QP_PER_EP
	ready  bool
	cfg    *oob.Config
	mr     *uverbs.MR
	memory []byte

	lie   func(string) string  // changes the answer to a request of a connection
	known map[string]*endpoint // by the peer's path
	notes []string
}

func newCxx(w *world, host int, name string) *cxx {
	d := w.fabric.Host(host).Devices()[0]
	pd := conntest.OpenPD(w.t, d)
	c := &cxx{t: w.t, w: w, name: name, device: d.Name(), pairs: defaultPairs, ready: true, cfg: &oob.Config{PD: pd}, memory: make([]byte, size),
		known: make(map[string]*endpoint)}
	c.cfg.RetryCount = 6
	c.lie = func(answer string) string { return answer }
	for i := range c.memory {
		c.memory[i] = byte(i*3 + i>>7)
	}
	var err error
	if c.mr, err = pd.RegMR(c.memory, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, c.mr)
	w.t.Cleanup(func() {
		for _, ep := range c.known {
			_ = ep.Close()
		}
	})
	return c
}

// serve answers until l is closed.
func (c *cxx) serve(l net.Listener) {
	for {
		s, err := l.Accept()
		if err != nil {
			return
		}
		_ = s.SetReadDeadline(time.Now().Add(time.Minute))
		if k, body, ok := c.read(s); ok {
			_, _ = s.Write(frame(k, c.answer(k, body)))
			if n, _ := s.Read(make([]byte, 1)); n != 0 {
				c.t.Error("bytes after the request")
			}
		}
		_ = s.Close()
	}
}

// read reads a message. It has its own idea of the format.
func (c *cxx) read(s net.Conn) (k byte, body []byte, ok bool) {
	var header [9]byte
	if _, err := io.ReadFull(s, header[:]); err != nil {
		return 0, nil, false
	}
	n := binary.LittleEndian.Uint64(header[:])
	if n == 0 || n > 1<<20 || header[8] > 3 {
		c.t.Errorf("a message of %d bytes and kind %d", n, header[8])
		return 0, nil, false
	}
	body = make([]byte, n-1)
	_, err := io.ReadFull(s, body)
	return header[8], body, err == nil
}

func frame(k byte, text string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)+1))
	return append(append(b, k), text...)
}

func (c *cxx) descriptor() string {
	at, err := locate(c.cfg, verbs.GID{})
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf(`{"buffers":[{"addr":%d,"length":%d,"lkey":[%d],"name":"cpu:0","rkey":[%d]}],"devices":[{"gid":"%s","lid":%d,"name":"%s"}],`+
		`"name":"%s","priority_matrix":{"cpu:0":[["%s"],[]]},"protocol":"rdma","tcp_data_port":0,"tcp_proto_version":2,"timestamp":"2026-11-28 10:00:00"}`+"\n",
		c.mr.Addr(), len(c.memory), c.mr.LKey(), c.mr.RKey(), formatGID(at.gid.GID), at.lid, c.device, c.name, c.device)
}

func (c *cxx) answer(k byte, body []byte) string {
	switch kind(k) {
	case kindMetadata:
		var ignored map[string]any
		if err := json.Unmarshal(body, &ignored); err != nil {
			c.t.Error(err)
		}
		return c.descriptor()
	case kindNotify:
		m := members(c.t, body, "name", "notify_msg")
		c.notes = append(c.notes, string(m["name"])+string(m["notify_msg"]))
		return `{"name":"","notify_msg":"success"}` + "\n"
	case kindProbe:
		return `{"status":"success"}` + "\n"
	}
	return c.lie(c.connection(body))
}

// connection is RdmaTransport's handler of a connection.
func (c *cxx) connection(body []byte) string {
	m := members(c.t, body, "local_gid", "local_lid", "local_nic_path", "payload", "peer_nic_path", "qp_num", "reply_msg")
	local, peer := text(c.t, m["local_nic_path"]), text(c.t, m["peer_nic_path"])
	var lid uint16
	var numbers []uint32
	if json.Unmarshal(m["local_lid"], &lid) != nil || json.Unmarshal(m["qp_num"], &numbers) != nil || text(c.t, m["reply_msg"]) != "" {
		c.t.Errorf("request %s", body)
	}
	gid, err := parseGID(text(c.t, m["local_gid"]))
	if err != nil {
		c.t.Error(err)
	}
	if peer != c.name+"@"+c.device || strings.Count(local, "@") != 1 {
		return c.reply(peer, local, nil, "", "Invalid argument: peer nic path inconsistency")
	}
	if ep := c.known[local]; ep != nil && !slices.Equal(ep.peers, numbers) {
		_ = ep.Close()
		delete(c.known, local)
	}
	if c.known[local] == nil {
		ep, err := newEndpoint(c.cfg, c.pairs, 1, nil, gid)
		if err != nil {
			c.t.Error(err)
			return "null\n"
		}
		if len(numbers) != c.pairs {
			defer ep.Close()
			return c.reply(peer, local, ep, formatGID(ep.place.gid.GID), "QP count mismatch in peer and local endpoints")
		}
		if err := ep.connect(&handshake{Pairs: numbers, LID: lid}, gid); err != nil {
			c.t.Error(err)
		}
		c.known[local] = ep
	}
	ep := c.known[local]
	return c.reply(peer, local, ep, formatGID(ep.place.gid.GID), "")
}

func (c *cxx) reply(local, peer string, ep *endpoint, gid, refusal string) string {
	var numbers []string
	if ep != nil {
		for _, qp := range ep.qps {
			numbers = append(numbers, fmt.Sprint(qp.QPN()))
		}
	}
	ready := ""
	if c.ready {
		ready = `"ready_ack":false,`
	}
	return fmt.Sprintf(`{"local_gid":"%s","local_lid":0,"local_nic_path":"%s","payload":"","peer_nic_path":"%s","qp_num":[%s],%s"reply_msg":"%s"}`+"\n",
		gid, local, peer, strings.Join(numbers, ","), ready, refusal)
}

// members decodes an object that has these members and no others.
func members(t *testing.T, body []byte, want ...string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil || !bytes.HasSuffix(body, []byte("}\n")) {
		t.Errorf("%q: %v", body, err)
	}
	if got := slices.Sorted(maps.Keys(m)); !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
	return m
}

func text(t *testing.T, raw json.RawMessage) (s string) {
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	return s
}

// TestInitiator checks that nodes in C++ are read, written and notified, whatever number of queue
// pairs they want.
func TestInitiator(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		for _, pairs := range []int{1, 2, 4} {
			w := newWorld(t, options, 1, 1)
			c := newCxx(w, 1, "10.0.0.2:15428")
			c.pairs, c.ready = pairs, pairs != 1
			l := w.listen(c.name)
			closeLater(t, l)
			go c.serve(l)
			e := w.engine(0)
			s := w.open(e, c.name, w.config())
			if b := s.Buffers(); len(b) != 1 || b[0].Location != "cpu:0" || b[0].Addr != c.mr.Addr() || b[0].Length != size {
				t.Fatal(b)
			}
			w.verify(s, e, c.memory)
			if err := s.Notify(t.Context(), "me", "landed"); err != nil || !slices.Equal(c.notes, []string{`"me""landed"`}) {
				t.Error(err, c.notes)
			}
		}
	})
}

// ask asks a node of this package, as an initiator in C++ does.
func (c *cxx) ask(address string, k byte, text string) []byte {
	c.t.Helper()
	s, err := c.w.dial(context.Background(), address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(frame(k, text)); err != nil {
		c.t.Fatal(err)
	}
	got, body, ok := c.read(s)
	if !ok || got != k {
		c.t.Fatalf("kind %d, %s", got, body)
	}
	return body
}

// perform performs an operation on all of the memory, over one of the queue pairs of a connection.
func (c *cxx) perform(ep *endpoint, pair int, opcode verbs.Opcode, addr uint64, rkey uint32) {
	c.t.Helper()
	qp := ep.qps[pair]
	wr := verbs.SendWR{Opcode: opcode, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, size)}, RemoteAddr: addr, RKey: rkey}
	if _, err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
		c.t.Fatal(err)
	}
	wcs := make([]verbs.WC, 1)
	if n, err := qp.SendCQ().Wait(context.Background(), wcs); n != 1 || err != nil || wcs[0].Err() != nil {
		c.t.Fatal(n, err, wcs[0].Err())
	}
}

// TestNode checks that initiators in C++ read and write a node of this package, with and without
// their acknowledgement.
func TestNode(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		const name = "10.0.0.2:15001"
		w := newWorld(t, options, 1, 1)
		server := w.engine(1)
		memory := w.region(server, size, 1)
		n := w.node(server, name, w.config(), memory)
		c := newCxx(w, 0, "10.0.0.1:15428")
		m := members(t, c.ask(name, byte(kindMetadata), c.descriptor()), "buffers", "devices", "name", "priority_matrix", "protocol", "tcp_data_port",
			"tcp_proto_version", "timestamp")
		if text(t, m["name"]) != name || text(t, m["protocol"]) != "rdma" {
			t.Error(m)
		}
		var buffers []map[string]json.RawMessage
		var devices []map[string]json.RawMessage
		var keys, lkeys []uint32
		var addr uint64
		if json.Unmarshal(m["buffers"], &buffers) != nil || json.Unmarshal(m["devices"], &devices) != nil || len(buffers) != 1 || len(devices) != 1 ||
			json.Unmarshal(buffers[0]["rkey"], &keys) != nil || json.Unmarshal(buffers[0]["lkey"], &lkeys) != nil || len(keys) != 1 || len(lkeys) != 1 ||
			json.Unmarshal(buffers[0]["addr"], &addr) != nil {
			t.Fatal(m)
		}
		dev := text(t, devices[0]["name"])
		if want := fmt.Sprintf(`{"cpu:0":[["%s"],[]]}`, dev); string(m["priority_matrix"]) != want {
			t.Errorf("%s, want %s", m["priority_matrix"], want)
		}
		peer := name + "@" + dev
		local := c.name + "@" + c.device
		for round, ready := range []string{"", `"ready_ack":false,`, `"ready_ack":false,`} { // the later ones are restarts
			ep, err := newEndpoint(c.cfg, c.pairs, 1, nil, verbs.GID{})
			if err != nil {
				t.Fatal(err)
			}
			request := func(ready string) string {
				c.ready = false
				return strings.Replace(c.reply(local, peer, ep, formatGID(ep.place.gid.GID), ""), `"reply_msg"`, ready+`"reply_msg"`, 1)
			}
			want := []string{"local_gid", "local_lid", "local_nic_path", "payload", "peer_nic_path", "qp_num"}
			if ready != "" {
				want = append(want, "ready_ack")
			}
			m := members(t, c.ask(name, byte(kindConnection), request(ready)), append(want, "reply_msg")...)
			var q handshake
			if json.Unmarshal(m["qp_num"], &q.Pairs) != nil || len(q.Pairs) != c.pairs || text(t, m["reply_msg"]) != "" ||
				text(t, m["local_nic_path"]) != peer || text(t, m["peer_nic_path"]) != local {
				t.Fatal(m)
			}
			gid, err := parseGID(text(t, m["local_gid"]))
			if err != nil {
				t.Fatal(err)
			}
			if err := ep.connect(&q, gid); err != nil {
				t.Fatal(err)
			}
			if ready != "" {
				m := members(t, c.ask(name, byte(kindConnection), request(`"ready_ack":true,`)), append(want, "reply_msg")...)
				if text(t, m["reply_msg"]) != "" {
					t.Error(m)
				}
				stale := strings.Replace(request(`"ready_ack":true,`), `"qp_num":[`, `"qp_num":[7,`, 1)
				if m := members(t, c.ask(name, byte(kindConnection), stale), append(want, "reply_msg")...); !strings.Contains(text(t, m["reply_msg"]), "not known, or was replaced") {
					t.Errorf("a stale acknowledgement: %s", m["reply_msg"])
				}
			}
			c.perform(ep, round%c.pairs, verbs.OpRDMARead, addr, keys[0])
			if !bytes.Equal(c.memory, memory.Bytes()) {
				t.Fatal("READ: the bytes differ")
			}
			for i := range c.memory {
				c.memory[i] ^= byte(round + 1)
			}
			c.perform(ep, round%c.pairs, verbs.OpRDMAWrite, addr, keys[0])
			if !bytes.Equal(c.memory, memory.Bytes()) {
				t.Fatal("WRITE: the bytes differ")
			}
			if err := ep.Close(); err != nil {
				t.Error(err)
			}
		}
		n.mu.Lock()
		if len(n.endpoints) != 1 || len(n.oldest) != 1 {
			t.Errorf("%d connections of one path", len(n.endpoints))
		}
		n.mu.Unlock()
		if got := string(c.ask(name, byte(kindProbe), "{}\n")); got != `{"status":"success"}`+"\n" {
			t.Error(got)
		}
		if got := string(c.ask(name, byte(kindNotify), `{"name":"a","notify_msg":"b"}`+"\n")); got != `{"name":"","notify_msg":"success"}`+"\n" {
			t.Error(got)
		}
	})
}

// TestOldProtocol checks that a request without a kind is answered without one.
func TestOldProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1)
		w.node(w.engine(0), "n", w.config())
		s, err := w.dial(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		request := `{"local_nic_path":"a@b","peer_nic_path":"x@y","qp_num":[1,2]}`
		if _, err := s.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(request))), request...)); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(s)
		if err != nil || len(b) < 9 || b[8] != '{' || !bytes.Contains(b, []byte(`"reply_msg":"not of the transfer protocol: \"x@y\" is no device of the node n"`)) {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestFalseAnswers checks that an answer that is not the request's ends the attempt.
func TestFalseAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds["rxe"], 1, 1)
		c := newCxx(w, 1, "10.0.0.2:15428")
		l := w.listen(c.name)
		closeLater(t, l)
		go c.serve(l)
		e := w.engine(0)
		for name, lie := range map[string]struct{ old, replacement, want string }{
			"other peer":     {`"peer_nic_path":"`, `"peer_nic_path":"x`, "answered for"},
			"other node":     {`"local_nic_path":"`, `"local_nic_path":"x`, "answered for"},
			"more pairs":     {`"qp_num":[`, `"qp_num":[1,`, "3 queue pairs, not 2"},
			"beyond 24 bits": {`"qp_num":[`, `"qp_num":[16777216],"was":[`, "1 queue pairs, not 2"},
			"GID":            {`"local_gid":"`, `"local_gid":"x`, "is no GID"},
			"null":           {`{`, `null `, "not of the transfer protocol"},
			"refusal":        {`"reply_msg":"`, `"reply_msg":"\u001b`, `refused: "\x1b"`},
		} {
			c.lie = func(answer string) string { return strings.Replace(answer, lie.old, lie.replacement, 1) }
			if _, err := Open(t.Context(), e, c.name, w.config()); err == nil || !strings.Contains(err.Error(), lie.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.lie = func(answer string) string { return answer }
		w.verify(w.open(e, c.name, w.config()), e, c.memory)
	})
}
