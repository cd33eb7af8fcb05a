package refusals

import (
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Failure is a wrong send over soft RoCE and its outcome. A unit test has the
// devices of package rdmatest do it, and a kernel test those of Linux 6.12. The responder has
// two receives, 1000 and 1001; the send is number 1. Each end is described by the completions of its work
// requests, and by the state of its queue pair then. Unless the queue pairs are RC, or one is
// in the error state, another SEND of 8 bytes follows.
type Failure struct {
	Name      string // begins with the type of the queue pairs
	Op        verbs.Opcode
	Size      int
	Change    func(*verbs.SendWR) // makes it wrong
	Mine, His verbs.Access        // to the ends' memory; zero: all there is
	HisQP     *verbs.Access       // what the responder's peer may do; nil: everything
	Closed    bool                // it names a region of the responder's that is closed
	// MineAttr and HisAttr change the attributes with which the ends are connected, or are nil.
	MineAttr, HisAttr func(*verbs.QPAttr)

	Requester, Responder string
}

// Layout is how the ends of a test use their memory.
type Layout struct {
	Memory int // bytes
	Source int // where sends begin
	Recv   int // bytes of a receive
}

// Type is the type of the queue pairs.
func (f *Failure) Type() verbs.QPType {
	return map[string]verbs.QPType{"RC": verbs.QPTypeRC, "UC": verbs.QPTypeUC, "UD": verbs.QPTypeUD}[f.Name[:2]]
}

// Request fills in a request to the peer, whose data an SGE names.
func (f *Failure) Request(wr verbs.SendWR, data verbs.SGE) verbs.SendWR {
	wr.WRID, wr.Opcode, wr.SGL = 1, f.Op, nil
	switch f.Op {
	case verbs.OpAtomicWrite:
		wr.Inline = make([]byte, f.Size)
	case verbs.OpFlush:
		wr.Flush = verbs.Flush{Type: verbs.FlushGlobal, Length: uint32(f.Size)}
	case verbs.OpLocalInv:
		wr.InvalidateRKey = data.LKey // which is the region's RKey, too
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		wr.CompareAdd, wr.Swap = Before, After
		fallthrough
	default:
		wr.SGL = []verbs.SGE{data}
	}
	if f.Change != nil {
		f.Change(&wr)
	}
	return wr
}

// The number that the responder's memory begins with, and its values after atomics.
const Before, After = 40, 80

// Changes reports whether the number that the responder's memory begins with is wrong. The data of a
// SEND goes there. An atomic is done before the requester finds that it has nowhere to put
// the result.
func (f *Failure) Changes(number uint64) bool {
	want := uint64(Before)
	switch f.Op {
	case verbs.OpSend, verbs.OpSendWithInv:
		return false
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		if f.Requester == Protection {
			want = After
		}
	}
	return number != want
}

// The completions of the two ends. A RECV of UD has 40 bytes in front.
const (
	FlushedSend = "1 work request flushed; ERR"
	Protection  = "1 local protection error; ERR"
	Refused     = "1 remote access error; ERR"
	Invalid     = "1 remote invalid request; ERR"
	Operation   = "1 remote operation error; ERR"
	SentIt      = "1 SEND success; RTS"
	WroteIt     = "1 RDMA_WRITE success; RTS"

	Lost      = "1000 work request flushed, 1001 work request flushed; ERR"
	Broken    = "1000 local QP operation error, 1001 work request flushed; ERR"
	Untouched = "1000 work request flushed, 1001 work request flushed; RTS"
	Dropped   = "1000 RECV success 8, 1001 work request flushed; RTS"
	DroppedUD = "1000 RECV success 48, 1001 work request flushed; RTS"
)

const mayRead, mayWrite, mayLocal = verbs.AccessRemoteRead, verbs.AccessRemoteWrite, verbs.AccessLocalWrite

func wrongRKey(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }
func staleRKey(wr *verbs.SendWR) { wr.RKey ^= 1 }
func wrongLKey(wr *verbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }
func badInv(wr *verbs.SendWR)    { wr.InvalidateRKey = 0x5500 }
func ownInv(wr *verbs.SendWR)    { wr.InvalidateRKey = wr.RKey }
func odd(wr *verbs.SendWR)       { wr.RemoteAddr += 4 }

func noDepth(a *verbs.QPAttr)  { a.MaxDestRDAtomic = 0 }
func smallMTU(a *verbs.QPAttr) { a.PathMTU = verbs.MTU256 }
func largeMTU(a *verbs.QPAttr) { a.PathMTU = verbs.MTU1024 }

func (l Layout) beyond(wr *verbs.SendWR) { wr.RemoteAddr += uint64(l.Memory - 4) }
func (l Layout) tooFar(wr *verbs.SendWR) { wr.SGL[0].Addr += uint64(l.Memory - l.Source - 4) }

func lets(a verbs.Access) *verbs.Access { return &a }

// Failures are those of all operations.
func Failures(l Layout) (all []Failure) {
	for _, part := range [][]Failure{l.local(), l.remote(), l.newer(), l.unreliable(), l.datagrams(),
		l.atomics("RC COMPARE_SWAP", verbs.OpCompareSwap), l.atomics("RC FETCH_ADD", verbs.OpFetchAdd)} {
		all = append(all, part...)
	}
	return all
}

// local are wrong at the requester's end.
func (l Layout) local() []Failure {
	const send, write, read = verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead
	return []Failure{
		{Name: "RC SEND, local key", Op: send, Size: 8, Change: wrongLKey, Requester: FlushedSend, Responder: Untouched},
		{Name: "RC SEND, local range", Op: send, Size: 8, Change: l.tooFar, Requester: FlushedSend, Responder: Untouched},
		{Name: "RC WRITE, local key", Op: write, Size: 8, Change: wrongLKey, Requester: FlushedSend, Responder: Untouched},
		{Name: "RC WRITE, local range", Op: write, Size: 8, Change: l.tooFar, Requester: FlushedSend, Responder: Untouched},
		{Name: "RC READ, local key", Op: read, Size: 8, Change: wrongLKey, Requester: Protection, Responder: Untouched},
		{Name: "RC READ, local range", Op: read, Size: 8, Change: l.tooFar, Requester: Protection, Responder: Untouched},
		{Name: "RC READ, local access", Op: read, Size: 8, Mine: mayRead, Requester: Protection, Responder: Untouched},
		{Name: "RC LOCAL_INV, key", Op: verbs.OpLocalInv, Change: badInv, Requester: FlushedSend, Responder: Untouched},
		{Name: "RC LOCAL_INV, region", Op: verbs.OpLocalInv, Requester: FlushedSend, Responder: Untouched},
	}
}

// remote are wrong at the responder's.
func (l Layout) remote() []Failure {
	const send, write, read, writeImm = verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpRDMAWriteImm
	return []Failure{
		{Name: "RC WRITE, remote key", Op: write, Size: 8, Change: wrongRKey, Requester: Refused, Responder: Lost},
		{Name: "RC WRITE, remote key of before", Op: write, Size: 8, Change: staleRKey, Requester: Refused, Responder: Lost},
		{Name: "RC WRITE, remote MR closed", Op: write, Size: 8, Closed: true, Requester: Refused, Responder: Lost},
		{Name: "RC WRITE, remote range", Op: write, Size: 8, Change: l.beyond, Requester: Refused, Responder: Lost},
		{Name: "RC WRITE, access of the MR", Op: write, Size: 8, His: mayLocal | mayRead, Requester: Refused, Responder: Lost},
		{Name: "RC WRITE, access of the QP", Op: write, Size: 8, HisQP: lets(mayRead), Requester: Invalid, Responder: Lost},
		{Name: "RC WRITE_WITH_IMM, remote key", Op: writeImm, Size: 8, Change: wrongRKey, Requester: Refused,
			Responder: "1000 remote access error, 1001 work request flushed; ERR"},
		{Name: "RC READ, remote key", Op: read, Size: 8, Change: wrongRKey, Requester: Refused, Responder: Lost},
		{Name: "RC READ, remote range", Op: read, Size: 8, Change: l.beyond, Requester: Refused, Responder: Lost},
		{Name: "RC READ, access of the MR", Op: read, Size: 8, His: mayLocal | mayWrite, Requester: Refused, Responder: Lost},
		{Name: "RC READ, access of the QP", Op: read, Size: 8, HisQP: lets(mayWrite), Requester: Invalid, Responder: Lost},
		{Name: "RC SEND_WITH_INV, key", Op: verbs.OpSendWithInv, Size: 8, Change: badInv, Requester: SentIt, // acknowledged all the same
			Responder: "1000 remote invalid request, 1001 work request flushed; ERR"},
		{Name: "RC SEND_WITH_INV, region", Op: verbs.OpSendWithInv, Size: 8, Change: ownInv, Requester: SentIt,
			Responder: "1000 remote invalid request, 1001 work request flushed; ERR"},
		{Name: "RC SEND, peer's MTU larger", Op: send, Size: 300, MineAttr: smallMTU, HisAttr: largeMTU, Requester: Invalid,
			Responder: "1000 remote invalid request, 1001 work request flushed; ERR"},
		{Name: "RC SEND, peer's MTU smaller", Op: send, Size: 300, MineAttr: largeMTU, HisAttr: smallMTU, Requester: Invalid,
			Responder: "1000 remote invalid request, 1001 work request flushed; ERR"},
		{Name: "RC WRITE, peer's MTU larger", Op: write, Size: 300, MineAttr: smallMTU, HisAttr: largeMTU, Requester: Invalid, Responder: Lost},
		{Name: "RC WRITE, peer's MTU smaller", Op: write, Size: 300, MineAttr: largeMTU, HisAttr: smallMTU, Requester: Invalid, Responder: Lost},
		{Name: "RC READ, peer's depth 0", Op: read, Size: 8, HisAttr: noDepth, Requester: Invalid, Responder: Lost},
		{Name: "RC SEND, receive too short", Op: send, Size: l.Recv + 1, Requester: Operation, Responder: Broken},
		{Name: "RC SEND, receive not writable", Op: send, Size: 8, His: mayRead, Requester: Operation, Responder: Broken},
	}
}

// newer are operations that came with Linux 6.3 and 6.2.
func (l Layout) newer() []Failure {
	const write, flush = verbs.OpAtomicWrite, verbs.OpFlush
	return []Failure{
		{Name: "RC ATOMIC_WRITE, remote key", Op: write, Size: 8, Change: wrongRKey, Requester: Refused, Responder: Lost},
		{Name: "RC ATOMIC_WRITE, remote range", Op: write, Size: 8, Change: l.beyond, Requester: Refused, Responder: Lost},
		{Name: "RC ATOMIC_WRITE, access of the MR", Op: write, Size: 8, His: mayLocal | mayRead, Requester: Refused, Responder: Lost},
		{Name: "RC ATOMIC_WRITE, access of the QP", Op: write, Size: 8, HisQP: lets(mayRead), Requester: Invalid, Responder: Lost},
		{Name: "RC ATOMIC_WRITE, misaligned", Op: write, Size: 8, Change: odd, Requester: Invalid, Responder: Lost},
		{Name: "RC FLUSH, remote key", Op: flush, Size: 8, Change: wrongRKey, Requester: Refused, Responder: Lost},
		{Name: "RC FLUSH, remote range", Op: flush, Size: 8, Change: l.beyond, Requester: Refused, Responder: Lost},
		{Name: "RC FLUSH, access of the MR", Op: flush, Size: 8, His: mayLocal | mayWrite, Requester: Refused, Responder: Lost},
		{Name: "RC FLUSH, access of the QP", Op: flush, Size: 8, HisQP: lets(mayWrite), Requester: Invalid, Responder: Lost},
	}
}

// unreliable lists failures of UC: the responder drops wrong requests.
func (l Layout) unreliable() []Failure {
	const send, write = verbs.OpSend, verbs.OpRDMAWrite
	return []Failure{
		{Name: "UC SEND, local key", Op: send, Size: 8, Change: wrongLKey, Requester: FlushedSend, Responder: Untouched},
		{Name: "UC WRITE, local range", Op: write, Size: 8, Change: l.tooFar, Requester: FlushedSend, Responder: Untouched},
		{Name: "UC WRITE, remote key", Op: write, Size: 8, Change: wrongRKey, Requester: WroteIt, Responder: Dropped},
		{Name: "UC WRITE, remote range", Op: write, Size: 8, Change: l.beyond, Requester: WroteIt, Responder: Dropped},
		{Name: "UC WRITE, access of the MR", Op: write, Size: 8, His: mayLocal, Requester: WroteIt, Responder: Dropped},
		{Name: "UC WRITE, access of the QP", Op: write, Size: 8, HisQP: lets(0), Requester: WroteIt, Responder: Dropped},
		{Name: "UC WRITE_WITH_IMM, remote key", Op: verbs.OpRDMAWriteImm, Size: 8, Change: wrongRKey, Requester: WroteIt, Responder: Dropped},
		{Name: "UC SEND, receive too short", Op: send, Size: l.Recv + 1, Requester: SentIt, Responder: Broken},
		{Name: "UC SEND, receive not writable", Op: send, Size: 8, His: mayRead, Requester: SentIt, Responder: Broken},
	}
}

func (l Layout) datagrams() []Failure {
	const send = verbs.OpSend
	return []Failure{
		{Name: "UD SEND, local key", Op: send, Size: 8, Change: wrongLKey, Requester: FlushedSend, Responder: Untouched},
		{Name: "UD SEND, Q_Key", Op: send, Size: 8, Change: func(wr *verbs.SendWR) { wr.RemoteQKey++ }, Requester: SentIt, Responder: DroppedUD},
		{Name: "UD SEND, QP number", Op: send, Size: 8, Change: func(wr *verbs.SendWR) { wr.RemoteQPN += 1000 }, Requester: SentIt, Responder: DroppedUD},
		{Name: "UD SEND, receive too short", Op: send, Size: l.Recv - uverbs.GRHSize + 1, Requester: SentIt, Responder: DroppedUD},
		{Name: "UD SEND, longer than the MTU", Op: send, Size: 1025, Requester: SentIt, Responder: DroppedUD},
		{Name: "UD SEND, receive not writable", Op: send, Size: 8, His: mayRead, Requester: SentIt, Responder: Broken},
	}
}

func (l Layout) atomics(name string, op verbs.Opcode) []Failure {
	return []Failure{
		{Name: name + ", peer's depth 0", Op: op, Size: 8, HisAttr: noDepth, Requester: Invalid, Responder: Lost},
		{Name: name + ", local key", Op: op, Size: 8, Change: wrongLKey, Requester: Protection, Responder: Untouched},
		{Name: name + ", local range", Op: op, Size: 8, Change: l.tooFar, Requester: Protection, Responder: Untouched},
		{Name: name + ", local access", Op: op, Size: 8, Mine: mayRead, Requester: Protection, Responder: Untouched},
		{Name: name + ", remote key", Op: op, Size: 8, Change: wrongRKey, Requester: Refused, Responder: Lost},
		{Name: name + ", remote range", Op: op, Size: 8, Change: l.beyond, Requester: Refused, Responder: Lost},
		{Name: name + ", access of the MR", Op: op, Size: 8, His: mayLocal | mayRead | mayWrite, Requester: Refused, Responder: Lost},
		{Name: name + ", access of the QP", Op: op, Size: 8, HisQP: lets(mayRead | mayWrite), Requester: Invalid, Responder: Lost},
		{Name: name + ", misaligned", Op: op, Size: 8, Change: odd, Requester: Invalid, Responder: Lost},
	}
}
