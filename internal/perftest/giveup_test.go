package perftest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
)

// TestGivesUp checks that a give-up message in place of any message is recognized, and that the error
// does not ask about the peer's options.
func TestGivesUp(t *testing.T) {
	why := errors.New("no device")
	for _, n := range []int{2, 4, 8, versionSize, plainSize, gidSize} {
		client, server := tcp(t)
		go func() {
			giveup.Say(client, why)
			client.Close()
		}()
		s := OverTCP(server, Server, Test{})
		_, err := s.swap(t.Context(), "a message", make([]byte, n))
		checkGaveUp(t, err)
	}
	s := OverCM(giveUpMessenger{why}, "the peer", Server, Test{CM: true})
	_, err := s.Greet(t.Context(), System{})
	checkGaveUp(t, err)
}

func checkGaveUp(t *testing.T, err error) {
	t.Helper()
	if !giveup.Is(err) || !strings.Contains(err.Error(), `the peer gave up: "no device"`) || errors.Is(err, ErrPeer) {
		t.Error(err)
	}
}

type giveUpMessenger struct{ why error }

func (giveUpMessenger) Send(context.Context, []byte) error { return nil }

func (m giveUpMessenger) Receive(_ context.Context, buf []byte) (int, error) {
	return copy(buf, giveup.Message(m.why)), nil
}

// TestGaveUpBefore checks that an end that sends first, to a peer that has reset the
// connection, still returns the reason.
func TestGaveUpBefore(t *testing.T) {
	client, server := tcp(t)
	_, err := server.Write(giveup.Message(errors.New("no device")))
	if err := errors.Join(err, server.(*net.TCPConn).SetLinger(0), server.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = OverTCP(client, Client, Test{}).Greet(t.Context(), System{})
	checkGaveUp(t, err)
}

// TestNothingLate checks that the connection can be given another deadline for the give-up message
// once an interrupted message has returned.
func TestNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		conn := &slowConn{written: cancel, setting: make(chan struct{})}
		if err := (stream{Conn: conn}).send(ctx, nil); err != nil {
			t.Error(err)
		}
		if !conn.set {
			t.Error("the deadline that ends the message is set after its end")
		}
	})
}

// slowConn is a connection on which the context ends in the middle of a write,
// and where a deadline takes a while to be set.
type slowConn struct {
	net.Conn
	written func()
	setting chan struct{}
	set     bool
}

func (c *slowConn) Write([]byte) (int, error) {
	c.written()
	<-c.setting
	return 0, nil
}

func (c *slowConn) SetDeadline(at time.Time) error {
	if at.IsZero() {
		return nil
	}
	close(c.setting)
	time.Sleep(time.Second)
	c.set = true
	return nil
}

// TestHalfAGiveUp checks that half a give-up message is reported as any wrong message is.
func TestHalfAGiveUp(t *testing.T) {
	client, server := tcp(t)
	client.Write(giveup.Message(errors.New("no device"))[:20])
	client.Close()
	_, err := OverTCP(server, Server, Test{}).Greet(t.Context(), System{})
	if giveup.Is(err) || !errors.Is(err, ErrPeer) || errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
