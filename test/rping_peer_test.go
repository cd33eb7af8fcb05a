//go:build vm

package test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// offer is a message of rping's: 16 bytes that say where size bytes are. They
// begin at sendFrom+64 of the end's memory.
func (e *end) offer(rkey uint32, size int) []byte {
	b := binary.BigEndian.AppendUint64(nil, e.mr.Addr()+sendFrom+64)
	b = binary.BigEndian.AppendUint32(b, rkey)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

func (e *end) announce(message []byte) {
	e.t.Helper()
	copy(e.mr.Bytes()[sendFrom:], message)
	e.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(sendFrom, len(message))}})
	e.sent("0 SEND success")
}

// offered waits for message i and returns a request for the peer's buffer.
func (e *end) offered(i int) verbs.SendWR {
	e.t.Helper()
	if wc := e.next(e.RecvCQ()); wc.Status != verbs.StatusSuccess || wc.ByteLen != 16 {
		e.t.Fatalf("message %d: %+v", i, wc)
	}
	b := e.mr.Bytes()[i*recvSize:]
	return verbs.SendWR{RemoteAddr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:])}
}

// TestRpingBadServer: the client finds out, and says what.
func TestRpingBadServer(t *testing.T) {
	fabric(t)
	for _, test := range []struct {
		name  string
		serve func(e *end)
		want  string
	}{
		{"leaves", func(e *end) { e.offered(0) },
			"ping 0: waiting for the server to read the data: peer disconnected"},
		{"leaves half-way", func(e *end) { e.offered(0); e.announce(make([]byte, 16)); e.offered(1) },
			"ping 0: waiting for the server to write the data back: peer disconnected"},
		{"short message", func(e *end) { e.offered(0); e.announce(make([]byte, 8)); e.ended() },
			"ping 0: waiting for the server to read the data: the peer sent a message of 8 bytes, not rping's 16"},
		{"long message", func(e *end) { e.offered(0); e.announce(make([]byte, 17)); e.ended() },
			"ping 0: waiting for the server to read the data: work request "},
		{"writes something else", func(e *end) {
			e.offered(0)
			e.announce(make([]byte, 16))
			wr := e.offered(1)
			wr.Opcode, wr.Flags, wr.SGL = verbs.OpRDMAWrite, verbs.SendSignaled, []verbs.SGE{e.mr.SGE(sendFrom, 64)}
			e.post(wr)
			e.sent("0 RDMA_WRITE success")
			e.announce(make([]byte, 16))
			e.ended()
		}, "ping 0: data mismatch: what came back is not what was sent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ln := must(rdmacm.Listen(dummyIPv4+":7174", nil))(t)
			defer ln.Close()
			client := launch(t, rping("Go", "-c -V -C 2 -a "+dummyIPv4))
			e := &end{t: t}
			e.Conn = must(must(ln.Next(ctx))(t).Accept(ctx, e.config(setup{recvs: 4})))(t)
			test.serve(e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if out := client.end(); out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: "+test.want) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestRpingBadClient: the server finds out, and says what. A text without a NUL
// is not bad: as much as was read is written back.
func TestRpingBadClient(t *testing.T) {
	only612(t)
	fabric(t)
	for _, test := range []struct {
		name string
		ping func(e *end)
		want string
	}{
		{"leaves", func(e *end) { e.announce(e.offer(e.mr.RKey(), 30)); e.offered(0) },
			"ping 0: waiting to be told where to write: peer disconnected"},
		{"too much", func(e *end) { e.announce(e.offer(e.mr.RKey(), 65536)); e.ended() },
			"ping 0: the client offers 65536 bytes, 65535 is the limit"},
		{"short message", func(e *end) { e.announce([]byte("hello")); e.ended() },
			"ping 0: the peer sent a message of 5 bytes, not rping's 16"},
		{"long message", func(e *end) { e.announce(make([]byte, 17)); e.ended() },
			"ping 0: "},
		{"wrong key to read", func(e *end) { e.announce(e.offer(^e.mr.RKey(), 30)); e.ended() },
			"ping 0: RDMA READ of 30 bytes: "},
		{"nothing", func(e *end) {}, ""},
		{"no NUL", func(e *end) {
			memory := e.mr.Bytes()[sendFrom+64:]
			copy(memory, "thirty bytes and no NUL at all")
			e.announce(e.offer(e.mr.RKey(), 30))
			e.offered(0)
			copy(memory, make([]byte, 31))
			e.announce(e.offer(e.mr.RKey(), 31))
			e.offered(1)
			if got := string(memory[:31]); got != "thirty bytes and no NUL at all\x00" {
				t.Errorf("%q came back", got)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			server := serveRping(t, rping("Go", "-s"))
			e := &end{t: t}
			e.Conn = must(rdmacm.Dial(ctx, dummyIPv4+":7174", e.config(setup{recvs: 4})))(t)
			test.ping(e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			out := server.end()
			t.Logf("%s", out.Err)
			if want := test.want; want == "" && out.Code != 0 || want != "" && (out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: "+want)) {
				t.Errorf("%+v", out)
			}
		})
	}
}
