//go:build vm

package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rsocket"
)

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
	sent, got byte
}

func (e *rstreamEnd) send(n int) error {
	b := make([]byte, n)
	for i := range b {
		b[i] = e.sent
		e.sent++
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
func (r rstreamRun) rstreamed(t *testing.T, c *running) {
	t.Helper()
	if out := c.end(); out.Code != 0 || !strings.Contains(out.Out, "custom") {
		t.Errorf("%+v", out)
	}
}

func dialStream(t *testing.T, host, port string) net.Conn {
	t.Helper()
	d := rsocket.Dialer{Timeout: patience}
	c := must(d.Dial(t.Context(), hostPort(host, port)))(t)
	ok(t, c.SetDeadline(time.Now().Add(2*patience)))
	return c
}

// tryStream dials one of librdmacm's servers.
func tryStream(host string, z rsocket.Config) (net.Conn, error) {
	d := rsocket.Dialer{Timeout: patience, Config: z}
	c, err := d.Dial(context.Background(), hostPort(host, "7471"))
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(2 * patience))
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
		for _, r := range fewElsewhere(rstreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				var c net.Conn
				var server *running
				notEarly(t, func() (err error) {
					server = serveCM(t, exec.Command("rstream", append(r.args(), "-b", host)...), "7471")
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
		for _, r := range fewElsewhere(rstreamRuns, 1) {
			t.Run(fmt.Sprint(r), func(t *testing.T) {
				l := must(rsocket.Listen(hostPort(host, "7471")))(t)
				defer l.Close()
				client := launch(t, exec.Command("rstream", append(r.args(), "-s", host)...))
				c := must(l.Accept())(t)
				ok(t, c.SetDeadline(time.Now().Add(2*patience)))
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
