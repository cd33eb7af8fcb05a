//go:build linux

package pingpong

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/giveup"
)

// TestPingpongLeaves checks that a failing end sends the other end the reason,
// regardless of the state of the other end, and although it has not read all data.
func TestPingpongLeaves(t *testing.T) {
	srq := kindOf("srq")
	for name, wait := range map[string]func(*exchange) error{
		"hears": func(client *exchange) error { _, err := client.recvAddrs(1, srq.records); return err },
		"waits": func(client *exchange) error { return client.awaitReady() },
	} {
		client, server := talks(t, t.Context())
		if err := client.sendAddrs([]addr{cAddressRead}, srq.records); err != nil {
			t.Fatal(err)
		}
		go server.leave(errors.New("no device"))
		if err := wait(client); !giveup.Is(err) || !strings.Contains(err.Error(), `the peer gave up: "no device"`) {
			t.Errorf("%s: %v", name, err)
		}
		if err := client.say(make([]byte, 1)); err != nil {
			t.Errorf("%s: the connection was reset: %v", name, err)
		}
	}
}

// TestPingpongInterruptedLeaves checks that the deadline of an interrupted wait
// does not apply to the give-up message.
func TestPingpongInterruptedLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, server := talks(t, t.Context())
	server = talk(ctx, server.Conn)
	cancel()
	_, err := server.recvAddrs(1, 1)
	if !errors.Is(err, peer.ErrInterrupted) {
		t.Error(err)
	}
	go server.leave(err)
	if err := client.awaitReady(); !giveup.Is(err) || !strings.Contains(err.Error(), `"interrupted"`) {
		t.Error(err)
	}
}

// TestPingpongTold checks that an end learns the reason if the other end resets the
// connection while it is still sending its addresses.
func TestPingpongTold(t *testing.T) {
	client, server := talks(t, t.Context())
	_, err := server.Write(giveup.Message(errors.New("no device")))
	if err := errors.Join(err, server.Conn.(*net.TCPConn).SetLinger(0), server.Close()); err != nil {
		t.Fatal(err)
	}
	if err := client.sendAddrs(nil, 1); !giveup.Is(err) {
		t.Error(err)
	}
}
