package exchange

import (
	"context"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A work request whose call was cancelled does not stand for the next one's.
func TestDoAfterCancel(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	end := providertest.Endpoint(t, uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1}, k, &uverbs.EndpointOptions{SendCQEntries: 8})
	qp := providertest.Must[*uverbs.QP](t)(end.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 8}}))
	kqp := k.QueuePairs()[0]
	kqp.Connect(16, 16)

	s := session{qp: qp}
	send := verbs.SendWR{Opcode: verbs.OpSend}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.do(cancelled, send); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.do(t.Context(), send) }()
	kqp.Carry(0) // the first one, which nobody waits for
	for !kqp.Carry(abi.SIW_WC_REM_ACCESS_ERR) {
	}
	if err := <-done; !errors.Is(err, verbs.StatusRemAccessErr) {
		t.Error("the second work request failed, and do returned", err)
	}
}
