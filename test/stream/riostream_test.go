//go:build vm

package stream

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// riostreamRun is a run of librdmacm's riostream with the options of the same names.
// Both ends map memory and swap 16 bytes. Then in each round the client writes count times
// size bytes to the server's memory, and the server as many back. Only the last byte
// announces them: it is one more than that of the other side before. The bytes of the last
// write of a round continue a count.
type riostreamRun struct{ rounds, count, size int }

var riostreamRuns = []riostreamRun{{3, 1, 64}, {2, 20, 3001}, {1, 1, 1 << 20}}

func (r riostreamRun) args() []string {
	return []string{"-T", "b", "-T", "v", "-I", fmt.Sprint(r.rounds), "-C", fmt.Sprint(r.count), "-S", fmt.Sprint(r.size)}
}

// riostreamEnd is the Go side of a run.
type riostreamEnd struct {
	riostreamRun
	*rsocket.Conn
	memory          []byte // the peer writes here
	Sent, got, mark byte
}

func (e *riostreamEnd) send() error {
	b := make([]byte, e.size)
	b[e.size-1] = e.mark - 1
	for range e.count - 1 {
		if _, err := e.WriteAt(b, 0); err != nil {
			return err
		}
	}
	for i := range b {
		b[i] = e.Sent
		e.Sent++
	}
	e.Sent--
	b[e.size-1] = e.mark
	e.mark++
	_, err := e.WriteAt(b, 0)
	return err
}

// receive waits for the last byte, which the device writes.
func (e *riostreamEnd) receive() error {
	for deadline := time.Now().Add(kit.Patience); lastByte(e.memory) != e.mark; runtime.Gosched() {
		if time.Now().After(deadline) {
			return fmt.Errorf("the last byte is %d, want %d", lastByte(e.memory), e.mark)
		}
	}
	e.mark++
	for i, b := range e.memory[:e.size-1] {
		if b != e.got {
			return fmt.Errorf("byte %d of %d is %d, want %d", i, e.size, b, e.got)
		}
		e.got++
	}
	return nil
}

// lastByte reads memory anew at each call.
//
//go:noinline
func lastByte(b []byte) byte { return b[len(b)-1] }

// run plays the client, or the server.
func (r riostreamRun) run(c net.Conn, client bool) error {
	e := &riostreamEnd{riostreamRun: r, Conn: c.(*rsocket.Conn), memory: make([]byte, r.size)}
	e.memory[r.size-1] = 0xff
	m, err := e.Map(e.memory, 0)
	if err != nil {
		return fmt.Errorf("synchronize: map: %w", err)
	}
	sync := []func() error{
		func() error { _, err := e.Write(make([]byte, 16)); return err },
		func() error { _, err := io.ReadFull(e, make([]byte, 16)); return err },
	}
	swap := []func() error{e.send, e.receive}
	if !client {
		sync[0], sync[1] = sync[1], sync[0]
		swap[0], swap[1] = swap[1], swap[0]
	}
	for _, step := range sync {
		if err := step(); err != nil {
			return fmt.Errorf("synchronize: %w", err)
		}
	}
	for round := range r.rounds {
		for _, step := range swap {
			if err := step(); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
	}
	return m.Close()
}

// end reads to the end and closes.
func (r riostreamRun) end(t *testing.T, c net.Conn, peer *kit.Running) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
	kit.OK(t, c.Close())
	rstreamRun{}.rstreamed(t, peer)
}

// TestRiostreamServer has C's server.
func TestRiostreamServer(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		for _, r := range kit.FewElsewhere(riostreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				var c net.Conn
				var server *kit.Running
				notEarly(t, func() (err error) {
					server = kit.ServeCM(t, exec.Command("riostream", append(r.args(), "-b", host)...), "7471")
					if c, err = tryStream(host, rsocket.Config{Mappings: 1}); err == nil {
						err = r.run(c, true)
					}
					return failedWith(err, server.Cmd, c)
				})
				r.end(t, c, server)
			})
		}
	})
}

// TestRiostreamClient has C's client.
func TestRiostreamClient(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		for _, r := range kit.FewElsewhere(riostreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				lc := rsocket.ListenConfig{Config: rsocket.Config{Mappings: 1}}
				l := kit.Must(lc.Listen(t.Context(), kit.HostPort(host, "7471")))(t)
				defer l.Close()
				client := kit.Launch(t, exec.Command("riostream", append(r.args(), "-s", host)...))
				c := kit.Must(l.Accept())(t)
				kit.OK(t, c.SetDeadline(time.Now().Add(2*kit.Patience)))
				kit.OK(t, r.run(c, false))
				r.end(t, c, client)
			})
		}
	})
}
