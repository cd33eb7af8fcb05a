package refusals

import (
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// Ending is a wrong request over soft iWARP and its outcome. A unit test has the
// devices of package rdmatest do it, and a kernel test those of Linux 6.1 and 6.12, which agree.
// The responder has a receive, 1000; the request is number 1. Each end is described by its
// completions, sends first, and then by the asynchronous events of its queue pair. All but those
// that siw forgives end the connection. After a forgiven one, the test ends the connection once
// both ends have polled the completions that are not flushed. All work that is posted later is flushed.
//
// An initiator learns little: iWARP acknowledges nothing, so a SEND or a WRITE that the
// responder refuses was a success.
type Ending struct {
	Name      string
	Op        verbs.Opcode
	Size      int
	Change    func(*verbs.SendWR) // makes it wrong
	Mine, His *verbs.Access       // to the ends' memory; nil: all there is
	NoRecv    bool                // the responder has no receive
	Closed    bool                // it names a region of the responder's that is closed
	Forgiven  bool                // the connection stays

	Requester, Responder string
}

// Request fills in a request that is to the peer's memory, whose data an SGE names.
func (e *Ending) Request(wr verbs.SendWR, data verbs.SGE) verbs.SendWR {
	wr.WRID, wr.Opcode, wr.SGL, wr.Flags = 1, e.Op, []verbs.SGE{data}, verbs.SendSignaled
	if e.Change != nil {
		e.Change(&wr)
	}
	return wr
}

// Receives means that the responder's receive is completed before the connection ends.
func (e *Ending) Receives() bool { return !e.NoRecv && !strings.HasPrefix(e.Responder, recvFlushed) }

// The completions of the two ends over iWARP.
const (
	sendSucceeded  = "1 SEND success"
	writeSucceeded = "1 RDMA_WRITE success"
	readFlushed    = "1 RDMA_READ work request flushed"
	readSucceeded  = "1 RDMA_READ success"
	recvFlushed    = "1000 RECV work request flushed"

	sendBroke  = "1 SEND local QP operation error, QP fatal error"
	writeBroke = "1 RDMA_WRITE local QP operation error, QP fatal error"
	readBroke  = "1 RDMA_READ local protection error, QP access error"

	accessEvent  = recvFlushed + ", QP access error"
	requestEvent = recvFlushed + ", QP request error"
)

// Endings are those of all operations.
func Endings(l Layout) []Ending {
	const send, sendInv, write, read = verbs.OpSend, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMARead
	return []Ending{
		{Name: "SEND, no receive posted", Op: send, Size: 8, NoRecv: true, Requester: sendSucceeded},
		{Name: "SEND, receive too short", Op: send, Size: l.Recv + 1, Requester: sendSucceeded, Responder: "1000 RECV local length error, QP fatal error"},
		{Name: "SEND, receive not writable", Op: send, Size: 8, His: lets(0), Requester: sendSucceeded, Responder: "1000 RECV general error, QP access error"},
		{Name: "SEND_WITH_INV, key", Op: sendInv, Size: 8, Change: badInv, Forgiven: true, Requester: sendSucceeded, Responder: "1000 RECV remote invalid request"},
		{Name: "WRITE, remote key", Op: write, Size: 8, Change: wrongRKey, Requester: writeSucceeded, Responder: recvFlushed},
		{Name: "WRITE, remote MR closed", Op: write, Size: 8, Closed: true, Requester: writeSucceeded, Responder: recvFlushed},
		{Name: "WRITE, remote range", Op: write, Size: 8, Change: l.beyond, Requester: writeSucceeded, Responder: accessEvent},
		{Name: "WRITE, remote access", Op: write, Size: 8, His: lets(mayLocal | mayRead), Requester: writeSucceeded, Responder: accessEvent},
		{Name: "READ, remote key", Op: read, Size: 8, Change: wrongRKey, Requester: readFlushed, Responder: requestEvent},
		{Name: "READ, remote MR closed", Op: read, Size: 8, Closed: true, Requester: readFlushed, Responder: requestEvent},
		{Name: "READ, remote range", Op: read, Size: 8, Change: l.beyond, Requester: readFlushed, Responder: requestEvent},
		{Name: "READ, remote access", Op: read, Size: 8, His: lets(mayLocal | mayWrite), Forgiven: true, Requester: readSucceeded, Responder: recvFlushed},
		{Name: "SEND, local key", Op: send, Size: 8, Change: wrongLKey, Requester: sendBroke, Responder: recvFlushed},
		{Name: "SEND, local range", Op: send, Size: 8, Change: l.tooFar, Requester: sendBroke, Responder: recvFlushed},
		{Name: "WRITE, local key", Op: write, Size: 8, Change: wrongLKey, Requester: writeBroke, Responder: recvFlushed},
		{Name: "WRITE, local range", Op: write, Size: 8, Change: l.tooFar, Requester: writeBroke, Responder: recvFlushed},
		{Name: "READ, local key", Op: read, Size: 8, Change: wrongLKey, Requester: readBroke, Responder: recvFlushed},
		{Name: "READ, local range", Op: read, Size: 8, Change: l.tooFar, Requester: readBroke, Responder: recvFlushed},
		{Name: "READ, local access", Op: read, Size: 8, Mine: lets(0), Requester: readBroke, Responder: recvFlushed},
	}
}
