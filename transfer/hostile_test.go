package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// FuzzDescriptor checks that a descriptor of any bytes is refused, or has keys, a length and a range of addresses.
func FuzzDescriptor(f *testing.F) {
	good := append(append([]byte("gvtd\x01\x03\x00\x02"), bytes.Repeat([]byte{7}, 24)...), 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	f.Add(good)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] = 0xff
		f.Add(bad)
		f.Add(good[:i])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseDescriptor(b)
		if err != nil {
			if !errors.Is(err, ErrProtocol) || len(err.Error()) > 200 {
				t.Error(err)
			}
			return
		}
		if len(r.keys) == 0 || len(r.keys) > maxDevices || len(b) != descriptorHeader+4*len(r.keys) || r.length == 0 || r.addr+r.length < r.addr {
			t.Errorf("%x is %+v", b, *r)
		}
	})
}

// FuzzHello checks that requests and answers are refused, or encoded again to the same bytes.
func FuzzHello(f *testing.F) {
	f.Add((&request{kind: kindConnect, rail: 1, device: 2, session: [16]byte{3}}).bytes())
	f.Add((&answer{devices: 2, engine: [16]byte{3}, arrived: window{4, 5}}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := parseRequest(b); err == nil && !bytes.Equal(q.bytes(), b) {
			t.Errorf("%x is %+v", b, q)
		}
		if a, err := parseAnswer(b); err == nil && !bytes.Equal(a.bytes(), b) {
			t.Errorf("%x is %+v", b, a)
		}
	})
}

// TestLyingDescriptors checks that each lie has one clear error.
func TestLyingDescriptors(t *testing.T) {
	good := append(append([]byte("gvtd\x01\x03\x00\x01"), make([]byte, 24)...), 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 3, 4)
	for name, c := range map[string]struct {
		lie  func(b []byte) []byte
		want string
	}{
		"nothing":    {func([]byte) []byte { return nil }, "0 bytes"},
		"half":       {func(b []byte) []byte { return b[:39] }, "39 bytes"},
		"JSON":       {func([]byte) []byte { return []byte(strings.Repeat("{\x1b", 50)) }, `"{\x1b{\x1b"`},
		"version":    {func(b []byte) []byte { b[4] = 2; return b }, "version 2"},
		"rights":     {func(b []byte) []byte { b[5] = 4; return b }, "rights 0x4"},
		"no keys":    {func(b []byte) []byte { b[7] = 0; return b[:40] }, "0 devices"},
		"many keys":  {func(b []byte) []byte { b[6], b[7] = 255, 255; return b }, "65535 devices"},
		"other keys": {func(b []byte) []byte { b[7] = 2; return b }, "44 bytes, with keys for 2"},
		"no length":  {func(b []byte) []byte { b[38] = 0; return b }, "0 bytes at"},
		"length":     {func(b []byte) []byte { b[32] = 0x80; return b }, "9223372036854776064 bytes"},
		"address":    {func(b []byte) []byte { binary.BigEndian.PutUint64(b[24:], math.MaxUint64); return b }, "0xffffffffffffffff"},
	} {
		if _, err := ParseDescriptor(c.lie(bytes.Clone(good))); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseDescriptor(good); err != nil {
		t.Error(err)
	}
}

// TestStrangeStreams checks that streams that say nothing, or anything else, keep nobody out.
func TestStrangeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, devices["rxe"], 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		var silent []net.Conn
		for i := range 3 * maxPending {
			s, err := w.dial(t.Context(), "server")
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, s)
			if i%2 == 0 {
				_, _ = s.Write((&request{kind: kindConnect, session: [16]byte{byte(i)}}).bytes())
			}
		}
		p := w.open(client, "server")
		if err := do(t.Context(), p); err != nil {
			t.Error(err)
		}
		for _, said := range []string{strings.Repeat("junk", 10), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", string((&request{kind: 9}).bytes()),
			string((&request{kind: kindConnect, device: 1}).bytes()), "gvtr\x02" + strings.Repeat("\x00", 30)} {
			s, err := w.dial(t.Context(), "server")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = s.Write([]byte(said)) }()
			b, err := io.ReadAll(s)
			if a, bad := parseAnswer(b); bad == nil || err != nil {
				t.Errorf("%q is answered with %v, %v", said, a, err)
			}
		}
		for _, s := range silent {
			_, _ = io.Copy(io.Discard, s) // the server closes them, by and by
			_ = s.Close()
		}
		synctest.Wait()
		server.mu.Lock()
		defer server.mu.Unlock()
		if n := len(server.pending); n > 0 {
			t.Errorf("%d streams are pending", n)
		}
	})
}

// TestStrangePeer checks that Open of a peer that answers otherwise fails with one clear error.
func TestStrangePeer(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		want string
	}{
		"nothing":      {nil, `closed the stream after ""`},
		"half":         {(&answer{devices: 1}).bytes()[:20], `closed the stream after "gvtr`},
		"junk":         {[]byte(strings.Repeat("junk", 10)), `"junk"`},
		"no devices":   {(&answer{}).bytes(), "0 devices"},
		"many devices": {(&answer{devices: 65535}).bytes(), "65535 devices"},
		"refusal":      {(&answer{devices: 1, status: 7}).bytes(), "reason 7"},
		"no more":      {(&answer{devices: 1}).bytes(), "no rail is left"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, devices["rxe"], 1, 1)
				client := w.engine(0, "", nil)
				l := conntest.NewPipes()
				w.name("server", l)
				go func() {
					for {
						s, err := l.Accept()
						if err != nil {
							return
						}
						_, _ = io.ReadFull(s, make([]byte, requestSize))
						_, _ = s.Write(c.says)
						_ = s.Close()
					}
				}()
				defer l.Close()
				if _, err := client.Open(t.Context(), "server"); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
			})
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, devices["rxe"], 1, 1)
			client := w.engine(0, "", nil)
			l := conntest.NewPipes()
			w.name("server", l)
			go func() {
				for s, err := l.Accept(); err == nil; s, err = l.Accept() {
					go func() { _, _ = io.Copy(io.Discard, s) }()
				}
			}()
			defer l.Close()
			var timeout net.Error
			if _, err := client.Open(t.Context(), "server"); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Error(err)
			}
		})
	})
}

// TestStrangeNotes checks that a peer whose notifications are not those of the protocol loses its
// connection, and counts nothing twice.
func TestStrangeNotes(t *testing.T) {
	note := func(number uint64, value uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, number), value)
	}
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		for name, notes := range map[string][][]byte{
			"short":   {{}, note(0, 1)[:5]},
			"again":   {{}, note(0, 1), note(0, 1)},
			"far":     {{}, note(windowSize, 1)},
			"further": {{}, note(math.MaxUint64, 1)},
		} {
			w := newWorld(t, options, 1, 1)
			client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
			s, err := w.dial(t.Context(), "server")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask(t.Context(), s, &request{kind: kindConnect}); err != nil {
				t.Fatal(err)
			}
			conn, err := oob.Dial(t.Context(), s, client.connection(0))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range notes {
				wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: n, SGL: noSGL}
				if to := conn.Peer(); to != nil {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = to.AH, to.QPN, to.QKey
				}
				if _, err := conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
					break // the server has disconnected
				}
				time.Sleep(time.Millisecond) // of the bubble
			}
			<-conn.Done()
			if n := server.counts.arrived[1]; n > 1 || n == 1 && name != "again" {
				t.Errorf("%s: %d notifications", name, n)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestManyValues checks that values that nobody waits for take bounded memory.
func TestManyValues(t *testing.T) {
	c := counts{arrived: make(map[uint32]int)}
	for v := range uint32(maxValues) {
		if err := c.add(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.add(maxValues); err == nil || c.add(0) != nil {
		t.Error("one value too many:", err)
	}
	if !c.take(0, 2) || c.add(maxValues) != nil {
		t.Error("no room for a value, and one has gone")
	}
}

// TestLanes checks that lanes that have ended are remembered, up to a bound.
func TestLanes(t *testing.T) {
	e := &Engine{lanes: make(map[laneKey]*lane), ctx: t.Context()}
	for i := range uint16(maxLanes + 10) {
		l := e.replace(laneKey{rail: i})
		l.arrived.add(0)
		close(l.ended)
	}
	if n := len(e.lanes); n > maxLanes {
		t.Errorf("%d lanes are remembered", n)
	}
	if l := e.replace(laneKey{rail: maxLanes + 9}); !l.arrived.has(0) || l.arrived.has(1) {
		t.Errorf("the new lane knows %+v", l.arrived)
	}
	connected := &Engine{lanes: make(map[laneKey]*lane), ctx: t.Context()}
	for i := range uint16(maxLanes) {
		connected.replace(laneKey{rail: i})
	}
	if l := connected.replace(laneKey{rail: maxLanes}); l != nil || len(connected.lanes) != maxLanes {
		t.Errorf("another lane beside %d that are connected", len(connected.lanes))
	}
	refused := answer{status: tooManyRails, devices: 1}
	if _, err := parseAnswer(refused.bytes()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

// TestNewRefused checks that options and devices that no connection could use are refused at once,
// and leave nothing behind.
func TestNewRefused(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.RXE}, {Kind: rdmatest.SIW}}}}})
	var devs []*uverbs.Device
	for _, d := range f.Host(0).Devices() {
		dev, err := uverbs.Open(d.Name())
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, dev)
		devs = append(devs, dev)
	}
	rxe, siw := devs[0], devs[1]
	for name, c := range map[string]struct {
		devices []*uverbs.Device
		cfg     Config
		want    error
		names   string
	}{
		"no device":         {nil, Config{}, syscall.EINVAL, "0 devices"},
		"a nil device":      {[]*uverbs.Device{rxe, nil}, Config{}, os.ErrInvalid, "device 2 of 2 is nil"},
		"iWARP":             {[]*uverbs.Device{siw}, Config{}, verbs.ErrNotSupported, "iWARP"},
		"99 retries":        {[]*uverbs.Device{rxe}, Config{TransportOptions: rdmacm.TransportOptions{RetryCount: 99}}, syscall.EINVAL, "RetryCount"},
		"a negative wait":   {[]*uverbs.Device{rxe}, Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: -1}}, syscall.EINVAL, "AckTimeout"},
		"slices of -1 byte": {[]*uverbs.Device{rxe}, Config{SliceSize: -1}, syscall.EINVAL, "SliceSize"},
	} {
		e, err := New(c.devices, &c.cfg)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.names) {
			t.Errorf("%s: %v, want %v about %s", name, err, c.want, c.names)
		}
		if err == nil {
			closeLater(t, e)
		}
		for _, d := range f.Host(0).Devices() {
			if left := d.Objects(); len(left) > 0 {
				t.Errorf("%s: left: %v", name, left)
			}
		}
	}
}
