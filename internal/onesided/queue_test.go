package onesided

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// device is a send queue that performs operations in order, and reports them as a device does: those that are not signaled
// only if they fail.
type device struct {
	iwarp  bool // WRITEs complete at once, READs later
	posted []verbs.SendWR
	refuse int // of the operations of a post, from this one on; 0 means none
}

var errRefused = errors.New("refused")

func (d *device) post(wrs []verbs.SendWR) (int, error) {
	if d.refuse > 0 && d.refuse <= len(wrs) {
		d.posted = append(d.posted, wrs[:d.refuse-1]...)
		return d.refuse - 1, errRefused
	}
	d.posted = append(d.posted, wrs...)
	return len(wrs), nil
}

// take removes the operation that completes next.
func (d *device) take(r *rand.Rand) verbs.SendWR {
	i := 0
	if d.iwarp && r.IntN(2) == 0 {
		for j := range d.posted {
			if d.posted[j].Opcode == verbs.OpRDMAWrite {
				i = j
				break
			}
		}
	}
	wr := d.posted[i]
	d.posted = append(d.posted[:i:i], d.posted[i+1:]...)
	return wr
}

type seqOf struct {
	seq      uint32
	signaled bool
}

// decode reverses wrid.
func decode(id uint64) seqOf { return seqOf{uint32(id >> 1), id&1 != 0} }

func wrid(seq uint32, signaled bool) uint64 {
	id := uint64(seq) << 1
	if signaled {
		id |= 1
	}
	return id
}

// TestQueue checks that each operation is settled once, not before the device has performed it, and
// with its own error, whatever is posted together and wherever an operation fails.
func TestQueue(t *testing.T) {
	errFlushed, errFirst := errors.New("flushed"), errors.New("failed")
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := &device{iwarp: r.IntN(2) == 0}
		var settled, performed [200]bool
		var errs [200]error
		q := &Queue[int]{WRID: wrid, Settled: func(op *int, _ int, err error) {
			if settled[*op] || err == nil && !performed[*op] {
				t.Errorf("seed %d: operation %d is settled twice, or too early: %v", seed, *op, err)
			}
			settled[*op], errs[*op] = true, err
		}}
		q.Init(16)
		q.head = uint32(1<<SeqBits - 20) // it wraps
		q.tail = q.head
		byWRID := make(map[uint64]int)
		failing, next, outstanding := -1, 0, 0
		if r.IntN(2) == 0 {
			failing = r.IntN(len(settled))
		}
		broken := false
		for next < len(settled) || len(d.posted) > 0 {
			if n := min(r.IntN(q.Room()+1), len(settled)-next); n > 0 && !broken {
				kinds := []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpFetchAdd}[r.IntN(3):]
				for range n {
					q.Add(&verbs.SendWR{Opcode: kinds[r.IntN(len(kinds))], RemoteAddr: uint64(next)}, verbs.SGE{}, next)
					next++
				}
				before := len(d.posted)
				p := q.Post(d.post)
				if p.Err != nil || !p.Certain {
					t.Fatal(p)
				}
				outstanding += p.Signaled
				for i := range d.posted[before:] {
					wr := &d.posted[before+i]
					byWRID[wr.WRID] = int(wr.RemoteAddr)
				}
			} else if broken && len(d.posted) == 0 {
				break
			}
			for range r.IntN(4) {
				if len(d.posted) == 0 {
					break
				}
				wr := d.take(r)
				s, op := decode(wr.WRID), int(wr.RemoteAddr)
				var err error
				switch {
				case broken:
					err = errFlushed
				case op == failing:
					broken, err = true, errFirst
				default:
					performed[op] = true
				}
				if signaled := wr.Flags&verbs.SendSignaled != 0; signaled != s.signaled {
					t.Fatal("flag and WRID differ")
				} else if signaled {
					outstanding--
				}
				if err != nil || s.signaled {
					q.Complete(s.seq, s.signaled, err)
					q.Complete(s.seq, s.signaled, errFirst) // a stale one
				}
			}
		}
		q.Complete(7, true, nil)
		if outstanding != 0 || q.Room() != 16 {
			t.Fatalf("seed %d: %d signaled operations are outstanding, room for %d", seed, outstanding, q.Room())
		}
		for op := range next {
			if ok := performed[op]; !settled[op] || (errs[op] == nil) != ok || op == failing && errs[op] != errFirst {
				t.Errorf("seed %d: operation %d: settled %v, performed %v, error %v", seed, op, settled[op], ok, errs[op])
			}
		}
	}
}

// TestSignals checks that a completion costs the device and this side, so only the last READ of
// several is signaled.
func TestSignals(t *testing.T) {
	const read, write, add = verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpFetchAdd
	for _, test := range []struct {
		codes    []verbs.Opcode
		signaled int
	}{
		{[]verbs.Opcode{read, read, read}, 1},
		{[]verbs.Opcode{write, write}, 1},
		{[]verbs.Opcode{read, write, read}, 3},
		{[]verbs.Opcode{read, read, add}, 3}, // devices may refuse the last
	} {
		d := new(device)
		q := &Queue[int]{WRID: wrid, Settled: func(*int, int, error) {}}
		q.Init(4)
		for i, code := range test.codes {
			q.Add(&verbs.SendWR{Opcode: code}, verbs.SGE{}, i)
		}
		if p := q.Post(d.post); p.Signaled != test.signaled || p.Err != nil {
			t.Errorf("%v: %+v", test.codes, p)
		}
	}
}

// TestRefused checks that operations that could not be posted are settled, and make room.
func TestRefused(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		d := &device{refuse: 3}
		var settled []int
		q := &Queue[int]{WRID: wrid, Settled: func(op *int, _ int, err error) {
			if settled = append(settled, *op); err != errRefused {
				t.Error(err)
			}
		}}
		q.Init(8)
		for i := range 4 {
			wr := verbs.SendWR{Opcode: verbs.OpRDMARead}
			if mixed && i == 2 {
				wr.Opcode = verbs.OpCompareSwap
			}
			q.Add(&wr, verbs.SGE{}, i)
		}
		p := q.Post(d.post)
		if p.Refused != 2 || p.Certain != mixed || p.Err != errRefused || len(settled) != 2 || settled[0] != 2 || q.Room() != 6 {
			t.Errorf("mixed %v: %+v, settled %v, room for %d", mixed, p, settled, q.Room())
		}
		q.End(errRefused)
		if len(settled) != 4 || q.Room() != 8 {
			t.Error(settled, q.Room())
		}
	}
}

// TestUnordered checks that completions in any order settle the operation that they are of, and no
// other.
func TestUnordered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := &device{}
	settled := make(map[int]error)
	q := &Queue[int]{WRID: wrid, Unordered: true, Settled: func(op *int, _ int, err error) {
		if _, ok := settled[*op]; ok {
			t.Errorf("operation %d is settled twice", *op)
		}
		settled[*op] = err
	}}
	q.Init(16)
	for next := 0; next < 1000 || len(d.posted) > 0; {
		for n := min(r.IntN(q.Room()+1), 1000-next); n > 0; n-- {
			q.Add(&verbs.SendWR{Opcode: verbs.OpRDMAWrite, RemoteAddr: uint64(next)}, verbs.SGE{}, next)
			next++
		}
		if p := q.Post(d.post); p.Err != nil || !p.Certain {
			t.Fatalf("%+v", p)
		}
		if len(d.posted) == 0 {
			continue
		}
		i := r.IntN(len(d.posted))
		wr, before := d.posted[i], len(settled)
		d.posted = append(d.posted[:i:i], d.posted[i+1:]...)
		if wr.Flags&verbs.SendSignaled == 0 {
			t.Fatal("an operation is not signaled")
		}
		c := decode(wr.WRID)
		q.Complete(c.seq, c.signaled, nil)
		if _, ok := settled[int(wr.RemoteAddr)]; !ok || len(settled) != before+1 {
			t.Fatalf("the completion of operation %d settled %d", wr.RemoteAddr, len(settled)-before)
		}
	}
}
