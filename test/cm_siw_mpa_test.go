//go:build vm

package test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
)

// mpaHeader is that of a request or reply to set up a connection (RFC 5044, 7.1):
// a key, flags and revision, and the length of the private data.
type mpaHeader struct {
	Key    [16]byte
	Flags  uint16
	Length uint16
}

// answerMPA answers one siw peer as siw does, and sends more in the same
// segment.
func answerMPA(l net.Listener, more []byte) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	var h mpaHeader
	if err := binary.Read(c, binary.BigEndian, &h); err != nil {
		return err
	}
	private := make([]byte, h.Length)
	if _, err := io.ReadFull(c, private); err != nil {
		return err
	}
	copy(h.Key[:], "MPA ID Rep Frame")
	reply, err := binary.Append(nil, binary.BigEndian, &h)
	if err != nil {
		return err
	}
	if _, err := c.Write(append(append(reply, private...), more...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c) // until the other side has had enough
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

// TestCMPeerSpeaksFirst: a peer's first message that comes right behind its answer
// ends the dial with an error that says why. Its answer alone would not.
func TestCMPeerSpeaksFirst(t *testing.T) {
	cmLink(t, "siw")
	l := must(net.Listen("tcp", "10.78.0.1:0"))(t)
	closeLater(t, l)
	for _, more := range []string{"", "a message that is too early"} {
		answered := make(chan error, 1)
		go func() { answered <- answerMPA(l, []byte(more)) }()
		// Without READs Dial does not prove the connection, which has nobody behind it.
		c, err := (&rdmacm.Dialer{Config: rdmacm.Config{InitiatorDepth: -1, ResponderResources: -1}}).Dial(t.Context(), l.Addr().String())
		switch {
		case more == "" && err == nil:
			ok(t, c.Close())
		case more == "":
			t.Error("a bare answer:", err)
		case !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "the side that dials has to send first"):
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}
