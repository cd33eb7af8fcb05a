//go:build vm

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The messages of librdmacm's rcopy, which are in the machine's byte order.
const (
	rcopyOpen   = 1
	rcopyClose  = 2
	rcopyWrite  = 3
	rcopyAnswer = 0x80
	rcopyPort   = "7427"
)

// rcopyHeader is what each message begins with.
type rcopyHeader struct {
	Version, Command uint8
	Length           uint16
	Data             uint32
	ID               uint64
}

// rcopySend sends a header, and what comes behind it within the message.
func rcopySend(c net.Conn, h rcopyHeader, rest []byte) error {
	h.Length = uint16(binary.Size(h) + len(rest))
	b, err := binary.Append(nil, binary.NativeEndian, h)
	if err == nil {
		_, err = c.Write(append(b, rest...))
	}
	return err
}

// rcopyReceive receives them.
func rcopyReceive(c net.Conn) (h rcopyHeader, rest []byte, err error) {
	if err = binary.Read(c, binary.NativeEndian, &h); err != nil {
		return h, nil, err
	}
	if int(h.Length) < binary.Size(h) {
		return h, nil, fmt.Errorf("a message of %d bytes", h.Length)
	}
	rest = make([]byte, int(h.Length)-binary.Size(h))
	_, err = io.ReadFull(c, rest)
	return h, rest, err
}

// rcopyServe receives one file.
func rcopyServe(c net.Conn) (path string, content []byte, err error) {
	for {
		h, rest, err := rcopyReceive(c)
		if err != nil {
			return path, content, err
		}
		switch h.Command {
		case rcopyOpen:
			path = string(bytes.TrimRight(rest, "\x00"))
		case rcopyWrite:
			content = make([]byte, binary.NativeEndian.Uint64(rest))
			if _, err := io.ReadFull(c, content); err != nil {
				return path, content, err
			}
		}
		if err := rcopySend(c, rcopyHeader{Command: h.Command | rcopyAnswer, ID: h.ID}, nil); err != nil || h.Command == rcopyClose {
			return path, content, err
		}
	}
}

// rcopyPut sends a file.
func rcopyPut(c net.Conn, path string, content []byte) error {
	name := make([]byte, (len(path)+8)&^7)
	copy(name, path)
	for _, m := range []struct {
		rcopyHeader
		rest, content []byte
	}{
		{rcopyHeader{Command: rcopyOpen, Data: 0o100644}, name, nil},
		{rcopyHeader{Command: rcopyWrite}, binary.NativeEndian.AppendUint64(nil, uint64(len(content))), content},
		{rcopyHeader{Command: rcopyClose}, nil, nil},
	} {
		if err := rcopySend(c, m.rcopyHeader, m.rest); err != nil {
			return err
		}
		if _, err := c.Write(m.content); err != nil {
			return err
		}
		h, _, err := rcopyReceive(c)
		if err != nil || h.Command != m.Command|rcopyAnswer || h.Data != 0 {
			return fmt.Errorf("%+v is the answer to %d: %w", h, m.Command, err)
		}
	}
	return nil
}

func someFile(size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(b)
	return b
}

var rcopySizes = []int{1, 70000, 3_000_001}

// eachIPv4Host runs a test on each transport. rcopy knows no IPv6.
func eachIPv4Host(t *testing.T, test func(t *testing.T, host string)) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		if !strings.Contains(host, ":") {
			test(t, host)
		}
	})
}

// TestRcopyClient has C's client send files.
func TestRcopyClient(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		l := must(rsocketListen(host, rcopyPort))(t)
		defer l.Close()
		for _, size := range rcopySizes {
			from, want := filepath.Join(t.TempDir(), "from"), someFile(size)
			ok(t, os.WriteFile(from, want, 0o600))
			client := launch(t, exec.Command("rcopy", from, host+":/there"))
			c := must(l.Accept())(t)
			ok(t, c.SetDeadline(time.Now().Add(2*patience)))
			path, got, err := rcopyServe(c)
			if err != nil || path != "/there" || !bytes.Equal(got, want) {
				t.Errorf("%q, %d bytes of %d, %v", path, len(got), size, err)
			}
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("after the end: %d, %v", n, err)
			}
			ok(t, c.Close())
			if out := client.end(); out.Code != 0 {
				t.Errorf("%+v", out)
			}
		}
	})
}

// TestRcopyServer has C's server receive them, one connection after the other.
func TestRcopyServer(t *testing.T) {
	eachIPv4Host(t, func(t *testing.T, host string) {
		serveCM(t, exec.Command("rcopy"), rcopyPort)
		for _, size := range rcopySizes {
			to, want := filepath.Join(t.TempDir(), "to"), someFile(size)
			c := dialStream(t, host, rcopyPort)
			if err := rcopyPut(c, to, want); err != nil {
				t.Error(err)
			}
			ok(t, c.Close())
			if got := must(os.ReadFile(to))(t); !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d", len(got), size)
			}
		}
	})
}
