//go:build vm

package stream

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// spokeEarly are the ends of a connection over siw whose accepting program spoke first.
// On iWARP that is left to the side that dials (RFC 5044, 7.1), but librdmacm's rsocket
// offers its buffer as soon as the accepting program reads. On a busy machine, this is
// sometimes too early:
//
//   - It comes right behind the answer to the dial. siw takes both for one answer that is
//     not valid, and ends the dial.
//   - It is under way when the READ of nothing comes with which Dial proves the connection.
//     siw lays the READ aside without its length, answers it with the length of the previous
//     send, finds no memory of that length, and ends the connection.
//
// The last pattern is another mistake, which riostream makes over any device. It listens
// first and asks for room for mappings afterwards, while a thread of rsocket accepts
// already. A connection that is made in between has no room.
var spokeEarly = regexp.MustCompile(`the dialing side must send first|(?s)synchronize: .*connection reset by peer|the peer takes 0 mappings`)

// notEarly meets a C program that accepts, and meets it again if it spoke too early.
func notEarly(t *testing.T, meet func() error) {
	t.Helper()
	for range 10 {
		err := meet()
		if err == nil {
			return
		}
		if !spokeEarly.MatchString(err.Error()) {
			t.Fatal(err)
		}
		t.Log("once more: ", err)
	}
	t.Fatal("it spoke too early each time")
}

// rstreamRun is what librdmacm's rstream does with the options of the same names: after
// 16 bytes each way, so many rounds of count times size bytes to the server and as many
// back. Every byte continues a count from 0 to 255.
type rstreamRun struct {
	rounds, count, size int
	buffer              int // of rstream; 0: its default
}

var rstreamRuns = []rstreamRun{{50, 1, 64, 0}, {1, 500, 64, 0}, {10, 1, 65536, 0}, {2, 2, 1 << 20, 0}, {20, 1, 3000, 4096}}

func (r rstreamRun) args() []string {
	args := []string{"-T", "b", "-T", "v", "-I", fmt.Sprint(r.rounds), "-C", fmt.Sprint(r.count), "-S", fmt.Sprint(r.size)}
	if r.buffer > 0 {
		args = append(args, "-B", fmt.Sprint(r.buffer))
	}
	return args
}

// rstreamEnd is the Go side of a run.
type rstreamEnd struct {
	net.Conn
	Sent, got byte
}

func (e *rstreamEnd) send(n int) error {
	b := make([]byte, n)
	for i := range b {
		b[i] = e.Sent
		e.Sent++
	}
	_, err := e.Write(b)
	return err
}

func (e *rstreamEnd) receive(n int) error {
	b := make([]byte, n)
	if _, err := io.ReadFull(e, b); err != nil {
		return err
	}
	for i := range b {
		if b[i] != e.got {
			return fmt.Errorf("byte %d of %d is %d, want %d", i, n, b[i], e.got)
		}
		e.got++
	}
	return nil
}

// run plays the client, or the server.
func (r rstreamRun) run(c net.Conn, client bool) (err error) {
	e := &rstreamEnd{Conn: c}
	swap := func(n, pieces int) error {
		for i := range 2 {
			for range pieces {
				if client == (i == 0) {
					err = e.send(n)
				} else {
					err = e.receive(n)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := swap(16, 1); err != nil {
		return fmt.Errorf("synchronize: %w", err)
	}
	for round := range r.rounds {
		if err := swap(r.size, r.count); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// rstreamed says what rstream should have printed.
func (r rstreamRun) rstreamed(t *testing.T, c *kit.Running) {
	t.Helper()
	if out := c.End(); out.Code != 0 || !strings.Contains(out.Out, "custom") {
		t.Errorf("%+v", out)
	}
}

func dialStream(t *testing.T, host, port string) net.Conn {
	t.Helper()
	d := rsocket.Dialer{Timeout: kit.Patience}
	c := kit.Must(d.Dial(t.Context(), kit.HostPort(host, port)))(t)
	kit.OK(t, c.SetDeadline(time.Now().Add(2*kit.Patience)))
	return c
}

// tryStream dials one of librdmacm's servers.
func tryStream(host string, z rsocket.Config) (net.Conn, error) {
	d := rsocket.Dialer{Timeout: kit.Patience, Config: z}
	c, err := d.Dial(context.Background(), kit.HostPort(host, "7471"))
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(2 * kit.Patience))
}

// failedWith ends a server and a connection to it if there was an error.
func failedWith(err error, server *exec.Cmd, c net.Conn) error {
	if err == nil {
		return nil
	}
	_ = server.Process.Kill()
	_ = server.Wait()
	if c != nil {
		_ = c.Close()
	}
	return err
}

// TestRstreamServer has C's server.
func TestRstreamServer(t *testing.T) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		for _, r := range kit.FewElsewhere(rstreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				var c net.Conn
				var server *kit.Running
				notEarly(t, func() (err error) {
					server = kit.ServeCM(t, exec.Command("rstream", append(r.args(), "-b", host)...), "7471")
					if c, err = tryStream(host, rsocket.Config{}); err == nil {
						err = r.run(c, true)
					}
					return failedWith(err, server.Cmd, c)
				})
				if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("after the end: %d, %v", n, err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				r.rstreamed(t, server)
			})
		}
	})
}

// TestRstreamClient has C's client.
func TestRstreamClient(t *testing.T) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		for _, r := range kit.FewElsewhere(rstreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				l := kit.Must(rsocket.Listen(t.Context(), kit.HostPort(host, "7471")))(t)
				defer l.Close()
				client := kit.Launch(t, exec.Command("rstream", append(r.args(), "-s", host)...))
				c := kit.Must(l.Accept())(t)
				kit.OK(t, c.SetDeadline(time.Now().Add(2*kit.Patience)))
				if err := r.run(c, false); err != nil {
					t.Error(err)
				}
				if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("after the end: %d, %v", n, err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				r.rstreamed(t, client)
			})
		}
	})
}
