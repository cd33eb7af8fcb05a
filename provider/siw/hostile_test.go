package siw

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestHostileOffers gives create calls impossible answers of the kernel: an error, the
// kernel's object destroyed again, nothing leaked.
func TestHostileOffers(t *testing.T) {
	numbers := []uint32{0, 3, 1 << 20, 1 << 31, 1<<32 - 1}
	keys := []uint64{1 << 63, 1<<64 - 1, 1 << 40, 1}
	for _, c := range []struct {
		call, text string
		tamper     func(r *ioctl.Request, n *uint32, key *uint64)
		create     func(*world) error
		none       bool // 0 is an honest answer
	}{
		{"CQ_CREATE", "create CQ on siw0", tampered(func(a *abi.SiwUrespCreateCq) (*uint32, *uint64) { return &a.NumCqe, &a.CqKey }),
			func(w *world) error { _, err := w.dev.CreateCQ(4, nil); return err }, false},
		{"SRQ_CREATE", "create SRQ on siw0", tampered(func(a *abi.SiwUrespCreateSrq) (*uint32, *uint64) { return &a.NumRqe, &a.SrqKey }),
			func(w *world) error { _, err := w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4}); return err }, false},
		{"QP_CREATE", "create QP on siw0", tampered(func(a *abi.SiwUrespCreateQp) (*uint32, *uint64) { return &a.NumSqe, &a.SqKey }), createQP, false},
		{"QP_CREATE", "create QP on siw0", tampered(func(a *abi.SiwUrespCreateQp) (*uint32, *uint64) { return &a.NumRqe, &a.RqKey }), createQP, true},
	} {
		for i := range len(numbers) + len(keys) {
			if c.none && i == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", c.call, i), func(t *testing.T) {
				w := newWorld(t, nil)
				alive, live := w.k.Alive(), regions.Live()
				w.k.Tamper = func(call string, r *ioctl.Request) {
					switch {
					case call != c.call:
					case i < len(numbers):
						c.tamper(r, &numbers[i], nil)
					default:
						c.tamper(r, nil, &keys[i-len(numbers)])
					}
				}
				if err := c.create(w); err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("error is %v", err)
				}
				if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
					t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
				}
			})
		}
	}
}

func createQP(w *world) error {
	_, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	return err
}

// tampered changes the number or the key of an answer.
func tampered[T any](fields func(*T) (*uint32, *uint64)) func(*ioctl.Request, *uint32, *uint64) {
	return func(r *ioctl.Request, n *uint32, key *uint64) {
		var answer T
		ioctl.Argument(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
		pn, pk := fields(&answer)
		if n != nil {
			*pn = *n
		}
		if key != nil {
			*pk = *key
		}
		ioctl.Answer(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
	}
}

// TestHostileCaps has the core grant more SGEs than an entry holds.
func TestHostileCaps(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QP_CREATE" {
			c := abi.IbUverbsQpCap{MaxSendSge: 1 << 30, MaxRecvSge: 1 << 30, MaxInlineData: 1 << 30}
			ioctl.Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &c)
		}
		if call == "SRQ_CREATE" {
			n := uint32(1 << 30)
			ioctl.Answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &n)
		}
	}
	qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
	srq := providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1}))
	w.k.QueuePairs()[1].Connect(16, 16)
	many := make([]verbs.SGE, 100)
	for name, err := range map[string]error{
		"send":   second(qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: many}})),
		"inline": second(qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: make([]byte, 100)}})),
		"recv":   second(qp.PostRecv([]verbs.RecvWR{{SGL: many}})),
		"srq":    second(srq.PostRecv([]verbs.RecvWR{{SGL: many}})),
	} {
		if err == nil {
			t.Errorf("%s of more than an entry holds", name)
		}
	}
	if err := qp.Close(); err != nil {
		t.Error(err)
	}
	if err := srq.Close(); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
