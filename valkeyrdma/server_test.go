package valkeyrdma

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
)

// inside is the environment variable with the address of the device that the tests of valkey-server use.
const inside = "GOVERBS_VALKEY_HOST"

// TestSandbox runs the tests with an unmodified valkey-server in rdmalink sandbox. make sandbox installs all that it
// needs.
func TestSandbox(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("this is the sandbox")
	}
	if _, err := exec.LookPath("rdmalink"); err != nil {
		t.Skip("rdmalink is not installed: make sandbox runs this test")
	}
	for _, program := range slices.Concat([]string{"valkey-server", "valkey-cli", "valkey-benchmark"}, clients) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "" {
			t.Fatal(err)
		} else if err != nil {
			t.Skipf("%v: make sandbox runs this test", err)
		}
	}
	for _, kind := range []string{"rxe", "mlx5"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			args := []string{"sandbox", "--device", kind, "--", os.Args[0], "-test.run=^TestServer", "-test.timeout=9m"}
			if testing.Verbose() {
				args = append(args, "-test.v")
			}
			run := exec.CommandContext(ctx, "rdmalink", args...)
			run.Env = append(os.Environ(), inside+"="+fabricHost)
			out, err := run.CombinedOutput()
			if err != nil || testing.Verbose() {
				t.Logf("%s", out)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// clients are the programs of examples/valkey.
var clients = []string{"goredis", "rueidis", "valkeygo", "redigo"}

// A server is a running valkey-server.
type server struct {
	address string
	process *exec.Cmd
	log     string // name of the file
}

// newServer starts valkey-server on a port with additional arguments, and waits until it answers.
func newServer(t *testing.T, port int, more ...string) *server {
	t.Helper()
	host := os.Getenv(inside)
	if host == "" {
		t.Skip("TestSandbox runs it")
	}
	dir := t.TempDir()
	number := strconv.Itoa(port)
	args := append([]string{"--port", "0", "--rdma-bind", host, "--rdma-port", number, "--dir", dir, "--save", "",
		"--protected-mode", "no", "--daemonize", "no"}, more...)
	s := &server{address: host + ":" + number, process: exec.Command("valkey-server", args...), log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("valkey-server:\n%s", s.printed())
		}
	})
	s.await(t)
	return s
}

func (s *server) await(t *testing.T) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var c *Conn
		if c, err = Dial(t.Context(), s.address); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("valkey-server does not answer: %v", err)
}

func (s *server) printed() string {
	b, _ := os.ReadFile(s.log)
	return string(b)
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// client sends commands and reads replies.
type client struct {
	*Conn
	r *bufio.Reader
}

func (s *server) dial(t *testing.T, cfg Config) *client {
	t.Helper()
	c, err := (&Dialer{Config: cfg, Timeout: time.Minute}).Dial(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return &client{c, bufio.NewReader(c)}
}

// request returns a command in RESP.
func request(words ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.Bytes()
}

// do sends a command and returns the reply, which is a line or a string.
func (c *client) do(words ...string) (string, error) {
	if _, err := c.Write(request(words...)); err != nil {
		return "", err
	}
	return c.reply()
}

func (c *client) reply() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '-':
		return "", errors.New(line)
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", err
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(c.r, b)
		return string(b[:n]), err
	}
	return line[1:], nil
}

func (c *client) must(t *testing.T, want string, words ...string) {
	t.Helper()
	if got, err := c.do(words...); err != nil || got != want {
		t.Fatalf("%s: %.40q of %d bytes, %v, want %.40q of %d", words[0], got, len(got), err, want, len(want))
	}
}

// TestServerValues checks that values of all sizes are returned unchanged, with buffers of all sizes.
func TestServerValues(t *testing.T) {
	s := newServer(t, 6380)
	for _, cfg := range []Config{{}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: 1 << 20, RecvBuffer: 16 << 20}} {
		c := s.dial(t, cfg)
		most := 64 << 20
		if cfg.RecvBuffer == leastBuffer {
			most = 1 << 20
		}
		for n := 0; n <= most; n = max(n*8, n+1) {
			value := strings.Repeat("0123456789abcdefg", n/17+1)[:n]
			c.must(t, "OK", "SET", "key", value)
			c.must(t, value, "GET", "key")
		}
		value := strings.Repeat("x", most)
		c.must(t, "OK", "SET", "key", value)
		c.must(t, value, "GET", "key")
	}
}

// TestServerPipeline writes 10,000 commands before it reads the replies. These are far larger than the receive buffer,
// so the server waits for the client while commands still arrive.
func TestServerPipeline(t *testing.T) {
	s := newServer(t, 6381)
	const commands = 10_000
	for name, bySingle := range map[string]bool{"one Write": false, "a Write each": true} {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t, Config{RecvBuffer: 64 << 10})
			value := strings.Repeat("v", 2000)
			c.must(t, "OK", "SET", "key", value)
			get := request("GET", "key")
			if bySingle {
				for i := range commands {
					if _, err := c.Write(get); err != nil {
						t.Fatal(i, err)
					}
				}
			} else if _, err := c.Write(bytes.Repeat(get, commands)); err != nil {
				t.Fatal(err)
			}
			for i := range commands {
				if got, err := c.reply(); err != nil || got != value {
					t.Fatalf("%d: %.40q, %v", i, got, err)
				}
			}
		})
	}
}

// TestServerConnections uses many connections at a time.
func TestServerConnections(t *testing.T) {
	s := newServer(t, 6382, "--rdma-rx-size", "65536")
	var all sync.WaitGroup
	for i := range 100 {
		c := s.dial(t, Config{SendBuffer: leastBuffer, RecvBuffer: 64 << 10})
		all.Go(func() {
			key, value := "key"+strconv.Itoa(i), strings.Repeat(strconv.Itoa(i), 10_000)
			for range 5 {
				if got, err := c.do("SET", key, value); err != nil || got != "OK" {
					t.Error(got, err)
				}
				if got, err := c.do("GET", key); err != nil || got != value {
					t.Error(len(got), err)
				}
			}
		})
	}
	all.Wait()
}

// TestServerKilled kills the server at random moments. Each call must end, and clients must find the server after it
// has been restarted.
func TestServerKilled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		s := newServer(t, 6383)
		c := s.dial(t, Config{})
		ended := make(chan error, 1)
		go func() {
			value := strings.Repeat("v", 300_000)
			for {
				if _, err := c.do("ECHO", value); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
		s.kill()
		if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrProtocol) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestServerClientKilled kills clients at random moments. The server and other clients must keep working. After a
// connection that it couldn't accept valkey-server 9.1.2 may end, so that it is started again.
func TestServerClientKilled(t *testing.T) {
	s := newServer(t, 6386)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 10 {
		dying := exec.Command(clients[i%len(clients)], s.address)
		if err := dying.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		_ = dying.Process.Kill()
		_ = dying.Wait()
		var got string
		c, err := (&Dialer{Timeout: time.Minute}).Dial(t.Context(), s.address)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			got, err = (&client{c, bufio.NewReader(c)}).do("PING")
			c.Close()
		}
		if strings.Contains(s.printed(), "RDMA Accepting client connection: ") {
			t.Logf("%d: valkey-server couldn't accept the killed client, and starts again", i)
			s.kill()
			s = newServer(t, 6386)
		} else if err != nil || got != "PONG" {
			t.Fatalf("%d: PING: %q, %v", i, got, err)
		}
	}
}

// TestServerPrograms runs valkey-cli against valkey-server beside our client, and valkey-cli and valkey-benchmark against
// a Go server.
func TestServerPrograms(t *testing.T) {
	s := newServer(t, 6384)
	host, port, _ := strings.Cut(s.address, ":")
	out, err := exec.Command("valkey-cli", "--rdma", "-h", host, "-p", port, "SET", "from", "cli").CombinedOutput()
	if err != nil || string(out) != "OK\n" {
		t.Errorf("%s%v", out, err)
	}
	s.dial(t, Config{}).must(t, "cli", "GET", "from")
	l, err := Listen(t.Context(), host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serve(l)
	_, port, _ = strings.Cut(l.Addr().String(), ":")
	if out, err := exec.Command("valkey-cli", "--rdma", "-h", host, "-p", port, "PING").CombinedOutput(); err != nil || string(out) != "PONG\n" {
		t.Errorf("%s%v", out, err)
	}
	for _, args := range []string{"-n 5000 -c 10 -t ping_mbulk", "-n 5000 -c 4 -P 100 -t ping_mbulk", "-n 300 -c 3 -P 10 -d 100000 -t set"} {
		bench := exec.Command("valkey-benchmark", append([]string{"--rdma", "-h", host, "-p", port, "-q"}, strings.Fields(args)...)...)
		out, err := bench.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "requests per second") {
			t.Errorf("%s: %s%v", args, out, err)
		}
	}
}

// TestServerClients runs Go's clients of Valkey over RDMA, which must work as over TCP.
func TestServerClients(t *testing.T) {
	const password = "secret"
	s := newServer(t, 6385, "--requirepass", password)
	for _, program := range clients {
		if out, err := exec.Command(program, "-password", password, s.address).CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "kill ok\n") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}

// serve answers commands as a server that stores nothing. The reply to ECHO is its argument.
func serve(l *Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			w := bufio.NewWriterSize(c, 64<<10)
			for r := bufio.NewReaderSize(c, 64<<10); ; {
				words, err := readRequest(r)
				if err != nil {
					return
				}
				switch strings.ToUpper(words[0]) {
				case "PING":
					_, _ = w.WriteString("+PONG\r\n")
				case "CONFIG":
					_, _ = w.WriteString("*0\r\n")
				case "HELLO":
					_, _ = w.WriteString("-ERR unknown command\r\n")
				case "ECHO":
					fmt.Fprintf(w, "$%d\r\n%s\r\n", len(words[1]), words[1])
				default:
					_, _ = w.WriteString("+OK\r\n")
				}
				if r.Buffered() == 0 && w.Flush() != nil {
					return
				}
			}
		}()
	}
}

// readRequest reads a command in RESP.
func readRequest(r *bufio.Reader) (words []string, err error) {
	n, err := readNumber(r, '*')
	for range n {
		size, err := readNumber(r, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words = append(words, string(b[:size]))
	}
	if err == nil && n < 1 {
		err = errors.New("an empty command")
	}
	return words, err
}

func readNumber(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q, want %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
