package cp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestOptions(t *testing.T) {
	for line, want := range map[string]options{
		"":                      {port: "7427", limit: 60, clients: 64},
		"-p 5":                  {port: "5", limit: 60, clients: 64},
		"-n 3 -t0":              {port: "7427", clients: 3},
		"dir/a host -p 5 -j":    {port: "5", limit: 60, file: "dir/a", host: "host", name: "a", asJSON: true},
		"dir/a host:/x/y":       {port: "7427", limit: 60, file: "dir/a", host: "host", name: "/x/y"},
		"dir/a [fd00::1]":       {port: "7427", limit: 60, file: "dir/a", host: "fd00::1", name: "a"},
		"-- -a [fd00::1%e0]:b:": {port: "7427", limit: 60, file: "-a", host: "fd00::1%e0", name: "b:"},
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	for line, want := range map[string]string{
		"a": "expected HOST", "a b c": `unexpected argument "c"`, "a :b": `":b": expected HOST`, "a [::1]b": "expected HOST",
		"-x": "-x", "-n 0": "number of clients", "-n 2 a b": "-n is for the server", "--bogus": "expected one of --port, --clients, --timeout, --json", "a b:" + strings.Repeat("c", 4097): "4097 bytes",
	} {
		var usage cli.UsageError
		if _, err := parse(strings.Fields(line)); !errors.As(err, &usage) || !strings.Contains(usage.Text, want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// server serves a directory over TCP until stop.
type server struct {
	dir, address string
	out, errs    bytes.Buffer // to read after stop
	stop         func()
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: t.TempDir(), address: l.Addr().String()}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &command{Output: cli.Output{Stdout: &s.out, Stderr: &s.errs, JSON: true}, options: options{clients: 64}} // handlers may end after the next dial
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.serve(ctx, l, root) }()
	s.stop = func() {
		cancel()
		if err := errors.Join(<-done, root.Close()); err != nil {
			t.Error(err)
		}
	}
	return s
}

func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// file is a file that need not exist.
type file struct {
	size int64
	mode fs.FileMode
}

func (f file) Name() string       { return "" }
func (f file) Size() int64        { return f.size }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return time.Time{} }
func (f file) IsDir() bool        { return false }
func (f file) Sys() any           { return nil }

func (s *server) put(t *testing.T, name string, content []byte, f file) (*copied, error) {
	t.Helper()
	c := &command{options: options{name: name}}
	return c.sendTo(s.dial(t), bytes.NewReader(content), f)
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// Content, permissions and checksums arrive, and an old file is replaced.
func TestCopy(t *testing.T) {
	s := serve(t)
	contents := [][]byte{{}, []byte("7 bytes"), bytes.Repeat([]byte("0123456789"), 100000)}
	for _, content := range contents {
		r, err := s.put(t, "file", content, file{int64(len(content)), fs.ModeSetuid | 0o740})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if r.SHA256 != hex.EncodeToString(sum[:]) || r.Bytes != int64(len(content)) {
			t.Errorf("%+v", r)
		}
		if got, err := os.ReadFile(filepath.Join(s.dir, "file")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
		}
		if info, err := os.Stat(filepath.Join(s.dir, "file")); err != nil || info.Mode() != 0o740 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	s.stop()
	if got := entries(t, s.dir); len(got) != 1 {
		t.Error(got)
	}
	d := json.NewDecoder(&s.out)
	for _, content := range contents {
		var r copied
		sum := sha256.Sum256(content)
		if err := d.Decode(&r); err != nil || r.Name != "file" || r.Bytes != int64(len(content)) || r.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if s.errs.Len() > 0 {
		t.Error(s.errs.String())
	}
}

// TestNames checks that names which lead out of the directory, or to something other
// than a file, are refused, and that nothing is written.
func TestNames(t *testing.T) {
	s := serve(t)
	defer s.stop()
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o600), os.Mkdir(filepath.Join(s.dir, "sub"), 0o700),
		os.Symlink(outside, filepath.Join(s.dir, "out")), os.Symlink(victim, filepath.Join(s.dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]syscall.Errno{
		victim: syscall.EACCES, "../victim": syscall.EACCES, "sub/../../victim": syscall.EACCES, "..": syscall.EACCES,
		"out/victim": syscall.EACCES, "out/new": syscall.EACCES, ".": syscall.EISDIR, "sub": syscall.EISDIR,
		"no/such": syscall.ENOENT, "": syscall.EINVAL,
	} {
		if _, err := s.put(t, name, []byte("yours"), file{5, 0o600}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"sub/file", "link"} { // the link itself is replaced
		if _, err := s.put(t, name, []byte("yours"), file{5, 0o600}); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(s.dir, name)); string(got) != "yours" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	if got := append(entries(t, outside), entries(t, filepath.Join(s.dir, "sub"))...); len(got) != 2 {
		t.Error(got)
	}
}

// A copy that breaks off leaves the old file as it was, and nothing beside it.
func TestBrokenOff(t *testing.T) {
	s := serve(t)
	if _, err := s.put(t, "file", []byte("old"), file{3, 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.put(t, "file", []byte("new"), file{30, 0o600}); err == nil || !strings.Contains(err.Error(), "3 bytes of 30") {
		t.Error(err)
	}
	conn := s.dial(t)
	name := append([]byte("file"), 0, 0, 0, 0)
	for _, want := range []error{nil, syscall.EBUSY} { // and leaves
		if err := send(conn, header{Command: cmdOpen}, name); err != nil {
			t.Error(err)
		}
		if err := answered(conn, cmdOpen); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	_, _ = io.Copy(io.Discard, conn)
	s.stop()
	if got := entries(t, s.dir); len(got) != 1 {
		t.Error(got)
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "file")); string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHostileClient checks that the server replies to malformed messages, or disconnects,
// and continues to serve other clients.
func TestHostileClient(t *testing.T) {
	s := serve(t)
	message := func(h header, body ...byte) []byte {
		var b bytes.Buffer
		if err := send(&b, h, body); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, test := range []struct {
		sent []byte
		want syscall.Errno // 0: it leaves
	}{
		{message(header{Command: 9}), syscall.EINVAL},
		{message(header{Command: cmdOpen}), syscall.EINVAL},
		{message(header{Command: cmdWrite}, 1), syscall.EINVAL},
		{message(header{Command: cmdWrite}, make([]byte, 8)...), syscall.EBADF},
		{message(header{Command: cmdOpen, Version: 1}), 0},
		{make([]byte, headerSize), 0},
		{make([]byte, headerSize-1), 0},
	} {
		conn := s.dial(t)
		if _, err := conn.Write(test.sent); err != nil {
			t.Error(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		h, _, err := receive(conn)
		if h.Data != uint32(test.want) || (err != nil) != (test.want == 0) {
			t.Errorf("%x: %+v, %v", test.sent, h, err)
		}
	}
	conn := s.dial(t)
	size := binary.NativeEndian.AppendUint64(nil, 1<<63)
	if _, err := conn.Write(append(message(header{Command: cmdOpen}, 'x', 0), message(header{Command: cmdWrite}, size...)...)); err != nil {
		t.Error(err)
	}
	if err := answered(conn, cmdOpen); err != nil {
		t.Error(err)
	}
	if err := answered(conn, cmdWrite); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
	s.stop()
	if got := entries(t, s.dir); len(got) != 0 {
		t.Error(got)
	}
}

// interrupting is a connection over which an answer leaves just when the user interrupts.
type interrupting struct {
	net.Conn
	interrupt func()
}

func (c interrupting) Write(b []byte) (int, error) {
	defer c.interrupt()
	return c.Conn.Write(b)
}

// TestRefusedAtTheEnd checks that the server's refusal is reported to the user, also if the
// server is about to end.
func TestRefusedAtTheEnd(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_ = send(theirs, header{Command: cmdOpen}, nil)
		_, _ = io.Copy(io.Discard, theirs)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	c := &command{Output: cli.Output{Stderr: &errs}}
	c.client(ctx, interrupting{ours, cancel}, nil)
	if !strings.Contains(errs.String(), "invalid argument") {
		t.Errorf("%q", errs.String())
	}
}

// TestHostileServer checks the errors for wrong replies of a server.
func TestHostileServer(t *testing.T) {
	for name, answer := range map[string]header{
		"another command": {Command: cmdClose | cmdAnswer, Length: headerSize},
		"too short":       {Command: cmdOpen | cmdAnswer, Length: 3},
		"a refusal":       {Command: cmdOpen | cmdAnswer, Length: headerSize, Data: uint32(syscall.EROFS)},
	} {
		a, b := net.Pipe()
		go func() {
			_, _, _ = receive(b)
			_ = binary.Write(b, binary.NativeEndian, answer)
			b.Close()
		}()
		c := &command{options: options{name: "x"}}
		if _, err := c.sendTo(a, strings.NewReader("x"), file{1, 0o600}); err == nil || name == "a refusal" && !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgressLine(t *testing.T) {
	p := &progress{name: "file", total: 4e6}
	_, _ = p.Write(make([]byte, 1e6))
	if got, want := p.line(time.Second/2), `"file" [=======                       ]  25% 2.0 MB/s`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := new(progress).line(0), `"" [==============================] 100% 0.0 MB/s`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPatience checks that an idle or stalled client is disconnected, without a trace of
// its upload, unlike a slow one.
func TestPatience(t *testing.T) {
	size := func(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }
	name := append([]byte("file"), 0, 0, 0, 0)
	for what, test := range map[string]struct {
		client func(net.Conn) error
		stays  string
	}{
		"idle":   {func(conn net.Conn) error { return nil }, ""},
		"header": {func(conn net.Conn) error { _, err := conn.Write(make([]byte, headerSize-1)); return err }, ""},
		"open": {func(conn net.Conn) error {
			return errors.Join(send(conn, header{Command: cmdOpen}, name), answered(conn, cmdOpen))
		}, ""},
		"deaf": {func(conn net.Conn) error { return send(conn, header{Command: cmdOpen}, name) }, ""},
		"stalled": {func(conn net.Conn) error {
			err := errors.Join(send(conn, header{Command: cmdOpen}, name), answered(conn, cmdOpen), send(conn, header{Command: cmdWrite}, size(9)))
			_, failed := conn.Write([]byte("8 bytes."))
			return errors.Join(err, failed)
		}, ""},
		"drip": {func(conn net.Conn) error {
			err := errors.Join(send(conn, header{Command: cmdOpen}, name), answered(conn, cmdOpen), send(conn, header{Command: cmdWrite}, size(1<<20)))
			for err == nil {
				time.Sleep(25 * time.Second)
				_, err = conn.Write([]byte("."))
			}
			if errors.Is(err, io.ErrClosedPipe) {
				return nil
			}
			return err
		}, ""},
		"slow": {func(conn net.Conn) error {
			err := errors.Join(send(conn, header{Command: cmdOpen}, name), answered(conn, cmdOpen), send(conn, header{Command: cmdWrite}, size(3*piece)))
			for range 3 {
				time.Sleep(50 * time.Second)
				_, failed := conn.Write(make([]byte, piece))
				err = errors.Join(err, failed)
			}
			return errors.Join(err, answered(conn, cmdWrite))
		}, "file"},
	} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			var errs bytes.Buffer
			c := &command{Output: cli.Output{Stdout: io.Discard, Stderr: &errs}, options: options{limit: 60}}
			over := make(chan time.Duration)
			start := time.Now()
			go func() { c.client(t.Context(), ours, root); over <- time.Since(start) }()
			if err := test.client(theirs); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			took := <-over
			if slow := what == "slow"; took != time.Minute && !slow || slow && took != 150*time.Second+time.Minute || !strings.Contains(errs.String(), "passed in 1m0s") {
				t.Errorf("%s: %v, %q", what, took, errs.String())
			}
		})
		if got := strings.Join(entries(t, dir), " "); got != test.stays {
			t.Errorf("%s: %q stays", what, got)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPatientClient checks that a server that never answers, or reads nothing, does not
// block a client.
func TestPatientClient(t *testing.T) {
	for what, server := range map[string]func(net.Conn){
		"silent": func(conn net.Conn) { _, _, _ = receive(conn) },
		"full": func(conn net.Conn) {
			_, _, _ = receive(conn)
			_ = send(conn, header{Command: cmdOpen | cmdAnswer}, nil)
			_, _, _ = receive(conn)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			defer ours.Close()
			go server(theirs)
			c := &command{Output: cli.Output{Stderr: io.Discard}, options: options{limit: 60, name: "x"}}
			start := time.Now()
			if _, err := c.sendTo(ours, strings.NewReader("x"), file{1, 0o600}); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %v", what, err, time.Since(start))
			}
		})
	}
}
