package oob

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// TestStrangeServers checks that each strange answer ends a dial with one clear error, and leaves
// nothing.
func TestStrangeServers(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	// answers sends the answer to an offer, changed.
	answers := func(change func(e *Endpoint)) func(offer *frame) []byte {
		return func(offer *frame) []byte {
			answer := *offer
			answer.kind, answer.endpoint.answers = kindAnswer, offer.endpoint.nonce
			if change != nil {
				change(&answer.endpoint)
			}
			return answer.bytes()
		}
	}
	says := func(b []byte) func(*frame) []byte { return func(*frame) []byte { return b } }
	good := answers(nil)
	for name, peer := range map[string]struct {
		does func(offer *frame) []byte
		want error
		text string
	}{
		"nothing":        {says(nil), rdmacm.ErrDisconnected, "EOF"},
		"half a header":  {func(o *frame) []byte { return good(o)[:5] }, ErrProtocol, "after 5 bytes"},
		"half an answer": {func(o *frame) []byte { return good(o)[:20] }, io.ErrUnexpectedEOF, "after 20 bytes"},
		"junk":           {says([]byte(strings.Repeat("junk", 16<<10))), ErrVersion, `"junk"`},
		"version":        {func(o *frame) []byte { b := good(o); b[4]++; return b }, ErrVersion, "version 2"},
		"transport":      {answers(func(e *Endpoint) { e.Type = verbs.QPTypeUC }), ErrMismatch, "UC at the peer"},
		"family":         {answers(func(e *Endpoint) { e.GID = otherFamily(e.GID) }), ErrMismatch, "different address families"},
		"GID type":       {answers(func(e *Endpoint) { e.GIDType = verbs.GIDTypeRoCEv1 }), ErrMismatch, "RoCE v1"},
		"QPN 0":          {answers(func(e *Endpoint) { e.QPN = 0 }), ErrProtocol, "number 0x0"},
		"MTU":            {answers(func(e *Endpoint) { e.MTU = 9 }), ErrProtocol, "MTU of code 9"},
		"old nonce":      {answers(func(e *Endpoint) { e.answers++ }), ErrStale, ""},
		"ready":          {says((&frame{kind: kindReady, endpoint: Endpoint{answers: 1}}).bytes()), ErrProtocol, "ready, but it should have sent an answer"},
		"its own offer":  {func(o *frame) []byte { return o.bytes() }, ErrProtocol, "this end's own"},
		"refusal":        {says((&frame{kind: kindRefuse, reason: "\x1b]0;"}).bytes()), ErrRefused, `\x1b`},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			go func() {
				offer, err := readFrame(far)
				if err != nil {
					t.Error(err)
				} else {
					_, _ = far.Write(peer.does(offer))
				}
				_ = far.Close()
			}()
			c, err := Dial(t.Context(), near, w.config(0, verbs.QPTypeRC))
			if !errors.Is(err, peer.want) || !strings.Contains(err.Error(), peer.text) {
				t.Errorf("%v, %v", c, err)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q", err)
			}
			if left := w.fabric.Host(0).Device(0).Objects(); len(left) != 1 { // the protection domain
				t.Errorf("left: %q", left)
			}
		})
	}
}

// otherFamily returns an address of the other family.
func otherFamily(gid verbs.GID) verbs.GID {
	if gid.Addr().Is4() {
		return verbs.GID(netip.MustParseAddr("2001:db8::1").As16())
	}
	return verbs.GID(netip.MustParseAddr("::ffff:192.0.2.1").As16())
}

// TestAnswersTwice checks that a server that answers a second time breaks the connection that its
// first answer made.
func TestAnswersTwice(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	near, far := net.Pipe()
	go func() {
		offer, err := readFrame(far)
		if err != nil {
			t.Error(err)
			return
		}
		answer := *offer
		answer.kind, answer.endpoint.answers = kindAnswer, offer.endpoint.nonce
		_, _ = far.Write(answer.bytes())
		_, _ = readFrame(far) // the ready
		_, _ = far.Write(answer.bytes())
	}()
	c, err := Dial(t.Context(), near, w.config(0, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "answer, but it should have sent nothing but a bye") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
