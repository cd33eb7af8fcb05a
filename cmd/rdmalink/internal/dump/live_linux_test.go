package dump

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDropped checks the note about packets that the kernel dropped.
func TestDropped(t *testing.T) {
	var notes strings.Builder
	source, closing, err := listen(t.Context(), "lo", func(format string, args ...any) { fmt.Fprintf(&notes, format, args...) })
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn, err := source.(*live).file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	to, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for range 1000 { // without a reader
		if _, err := to.WriteTo(make([]byte, 1000), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if err := closing(); err != nil || !strings.Contains(notes.String(), " packets were dropped") {
		t.Errorf("%v, %q", err, notes.String())
	}
}
