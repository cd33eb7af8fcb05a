package rxe

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// answered changes the driver's answer.
func answered[T any](change func(*T)) func(*ioctl.Request) {
	return func(r *ioctl.Request) {
		var answer T
		ioctl.Argument(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
		change(&answer)
		ioctl.Answer(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
	}
}

func granted(r *ioctl.Request, c abi.IbUverbsQpCap) {
	ioctl.Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &c)
}

// TestHostileAnswers has the kernel's answers to create calls hold impossible values: an
// error, the kernel's object destroyed again, nothing leaked.
func TestHostileAnswers(t *testing.T) {
	cq := func(w *world) error { return second(w.dev.CreateCQ(4, nil)) }
	srq := func(w *world) error { return second(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4})) }
	qp := func(w *world) error {
		return second(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}}))
	}
	type attack struct {
		call   string
		create func(*world) error
		tamper func(*ioctl.Request)
	}
	attacks := []attack{
		{"QP_CREATE", qp, func(r *ioctl.Request) { granted(r, abi.IbUverbsQpCap{MaxSendSge: 1 << 31}) }},
		{"QP_CREATE", qp, func(r *ioctl.Request) { granted(r, abi.IbUverbsQpCap{MaxRecvSge: 1 << 31}) }},
		{"QP_CREATE", qp, func(r *ioctl.Request) { granted(r, abi.IbUverbsQpCap{MaxInlineData: 1<<32 - 1}) }},
		{"QP_CREATE", qp, func(r *ioctl.Request) { granted(r, abi.IbUverbsQpCap{MaxSendSge: 30}) }},
		{"QP_CREATE", qp, answered(func(a *abi.RxeCreateQpResp) { a.SqMi, a.RqMi = a.RqMi, a.SqMi })},
		{"SRQ_CREATE", srq, func(r *ioctl.Request) {
			n := uint32(1<<32 - 1)
			ioctl.Answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &n)
		}},
	}
	for _, mi := range []abi.Mminfo{{}, {Offset: 4096}, {Offset: 1 << 63, Size: 4096}, {Offset: 1<<64 - 1, Size: 1},
		{Offset: 1 << 40, Size: 4096}, {Offset: 4096, Size: 1<<32 - 1}, {Offset: 4096, Size: 4096}} { // the last is mapped already
		attacks = append(attacks,
			attack{"CQ_CREATE", cq, answered(func(a *abi.RxeCreateCqResp) { a.Mi = mi })},
			attack{"SRQ_CREATE", srq, answered(func(a *abi.RxeCreateSrqResp) { a.Mi = mi })},
			attack{"QP_CREATE", qp, answered(func(a *abi.RxeCreateQpResp) { a.SqMi = mi })},
			attack{"QP_CREATE", qp, answered(func(a *abi.RxeCreateQpResp) { a.RqMi = mi })})
	}
	for i, a := range attacks {
		t.Run(fmt.Sprintf("%s/%d", a.call, i), func(t *testing.T) {
			w := newWorld(t, verbs.QPTypeRC, nil)
			alive, live := w.k.Alive(), regions.Live()
			w.k.Tamper = func(call string, r *ioctl.Request) {
				if call == a.call {
					a.tamper(r)
				}
			}
			if err := a.create(w); err == nil || !strings.Contains(err.Error(), "on rxe0") {
				t.Errorf("error is %v", err)
			}
			if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
				t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
			}
		})
	}
}

// TestHostileResize checks that a bad answer to a resize loses the queue, but not the
// process.
func TestHostileResize(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "RESIZE_CQ" {
			answered(func(a *abi.RxeResizeCqResp) { a.Mi.Size = 0 })(r)
		}
	}
	if err := w.cq.Resize(30); err == nil {
		t.Error("no error")
	}
	if _, err := w.cq.Poll(make([]verbs.WC, 1)); err == nil {
		t.Error("no error")
	}
}

// TestHostileHeader puts impossible values into a queue's header.
func TestHostileHeader(t *testing.T) {
	type header struct{ log2, mask, producer, consumer uint32 }
	try := func(h header, length int) error {
		memory := make([]byte, length)
		for offset, v := range map[int]uint32{log2ElemSize: h.log2, indexMask: h.mask, producerIndex: h.producer, consumerIndex: h.consumer} {
			if offset+4 <= length {
				binary.NativeEndian.PutUint32(memory[offset:], v)
			}
		}
		region := providertest.Must[*mmap.Region](t)(mmap.Wrap(memory))
		defer region.Close()
		q, err := readHeader(region)
		if err != nil {
			return err
		}
		if _, err = mmap.NewIndexedConsumer[abi.IbUverbsWc](region, q.layout); err != nil {
			return err
		}
		return second(newRecvQueue(q, 1))
	}
	const full = queueData + 4*128
	if err := try(header{7, 3, 3, 2}, full); err != nil {
		t.Fatal(err)
	}
	if err := try(header{7, 0, 0, 0}, full); err != nil {
		t.Errorf("a queue with no room: %v", err)
	}
	for _, h := range []header{{0, 3, 0, 0}, {5, 3, 0, 0}, {8, 3, 0, 0}, {20, 3, 0, 0}, {21, 3, 0, 0}, {32, 3, 0, 0}, {39, 3, 0, 0}, {1<<32 - 1, 3, 0, 0},
		{7, 2, 0, 0}, {7, 7, 0, 0}, {7, 1<<31 - 1, 0, 0}, {7, 1<<32 - 1, 0, 0}, {7, 3, 4, 0}, {7, 3, 0, 4}, {7, 3, 1<<32 - 1, 0}} {
		if err := try(h, full); err == nil {
			t.Errorf("%+v: no error", h)
		}
	}
	for _, length := range []int{1, 4, 7, 8, 131, 132, 259, 260, 383, 384, full - 1} {
		if err := try(header{7, 3, 0, 0}, length); err == nil {
			t.Errorf("%d bytes: no error", length)
		}
	}
}

// TestLayout compares the offsets and sizes with the generated structs.
func TestLayout(t *testing.T) {
	offset := func(name string) int {
		f, _ := reflect.TypeFor[abi.RxeQueueBuf]().FieldByName(name)
		return int(f.Offset)
	}
	for what, c := range map[string][2]int{
		"log2":     {offset("Log2ElemSize"), log2ElemSize},
		"mask":     {offset("IndexMask"), indexMask},
		"producer": {offset("ProducerIndex"), producerIndex},
		"consumer": {offset("ConsumerIndex"), consumerIndex},
		"data":     {int(reflect.TypeFor[abi.RxeQueueBuf]().Size()), queueData},
		"send":     {int(reflect.TypeFor[abi.RxeSendWqe]().Size()), sendWQESize},
		"recv":     {int(reflect.TypeFor[abi.RxeRecvWqe]().Size()), recvWQESize},
		"SGE":      {int(reflect.TypeFor[abi.RxeSge]().Size()), sgeSize},
		"mminfo":   {int(reflect.TypeFor[abi.Mminfo]().Size()), mminfoSize},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, have %d", what, c[0], c[1])
		}
	}
}

// TestCaps checks that QP.Cap reports the real size of the queues, which Linux 6.1 does not
// return.
func TestCaps(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QP_CREATE" {
			granted(r, abi.IbUverbsQpCap{MaxSendWr: 5, MaxRecvWr: 9, MaxSendSge: 32, MaxRecvSge: 2, MaxInlineData: 512})
		}
	}
	for _, c := range []struct{ asked, want verbs.QPCap }{
		{verbs.QPCap{MaxSendWR: 5, MaxRecvWR: 9, MaxRecvSGE: 2, MaxInline: 512},
			verbs.QPCap{MaxSendWR: 7, MaxRecvWR: 15, MaxSendSGE: 32, MaxRecvSGE: 2, MaxInline: 512}},
		{verbs.QPCap{MaxSendSGE: 32, MaxRecvSGE: 2}, verbs.QPCap{MaxSendSGE: 32, MaxRecvSGE: 2, MaxInline: 512}},
	} {
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: c.asked}))
		if got := qp.Cap(); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
	w.k.Tamper = nil
	qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq}))
	if got := qp.Cap(); got != (verbs.QPCap{MaxSendSGE: 1, MaxInline: 16}) {
		t.Errorf("%+v", got)
	}
	if err := qp.Close(); err != nil {
		t.Error(err)
	}
}

// offer is a kernel that offers one queue.
type offer struct {
	driver.Call
	region *mmap.Region
}

func (o offer) Map(int64, int, mmap.Prot) (*mmap.Region, error) { return o.region, nil }

// An entry needs room for its fixed part and for the payload. If it had room only for the
// larger of them, the payload of the last entry would be written past the mapping.
func TestHostileEntrySize(t *testing.T) {
	mi := &abi.Mminfo{Size: 1}
	for _, c := range []struct {
		log2 uint32
		sges uint32
		ok   bool
	}{{8, 3, true}, {8, 4, false}, {8, 16, false}, {9, 16, true}, {9, 19, true}, {9, 20, false}, {9, 32, false}} {
		r := &driver.CreateQP{Call: offer{region: newQueue(t, c.log2).region}, Cap: verbs.QPCap{MaxSendSGE: c.sges}}
		if err := new(qp).mapSend(r, mi); (err == nil) != c.ok {
			t.Errorf("send entries of 2^%d bytes with %d SGEs: %v", c.log2, c.sges, err)
		}
		r = &driver.CreateQP{Call: r.Call, Cap: verbs.QPCap{MaxInline: c.sges * sgeSize}}
		if err := new(qp).mapSend(r, mi); (err == nil) != c.ok {
			t.Errorf("send entries of 2^%d bytes with %d bytes inline: %v", c.log2, r.Cap.MaxInline, err)
		}
	}
	for _, c := range []struct {
		log2 uint32
		sges uint32
		ok   bool
	}{{6, 1, true}, {6, 2, false}, {6, 4, false}, {7, 5, true}, {7, 6, false}, {7, 8, false}} {
		r := &driver.CreateQP{Call: offer{region: newQueue(t, c.log2).region}, Cap: verbs.QPCap{MaxRecvSGE: c.sges}}
		if err := new(qp).mapRecv(r, mi); (err == nil) != c.ok {
			t.Errorf("receive entries of 2^%d bytes with %d SGEs: %v", c.log2, c.sges, err)
		}
	}
}
