package exchange

import (
	"context"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/kernel"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A work request whose call was cancelled does not stand for the next one's.
func TestDoAfterCancel(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	dev := must[*uverbs.Device](t)(uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1, Node: kernel.Node(k)}.Open())
	defer dev.Close()
	channel := must[*uverbs.CompChannel](t)(dev.CreateCompChannel())
	cq := must[*uverbs.CQ](t)(dev.CreateCQ(8, &uverbs.CQOptions{Channel: channel}))
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	qp := must[*uverbs.QP](t)(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8}}))
	kqp := k.QueuePairs()[0]
	kqp.Connect()

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
