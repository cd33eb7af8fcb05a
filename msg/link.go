package msg

import (
	"errors"
	"net"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// link is what a Conn stands on: a connected queue pair, or a stand-in in tests.
type link interface {
	PostSend([]verbs.SendWR) (int, error)
	PostRecv([]verbs.RecvWR) (int, error)
	register([]byte, verbs.Access) (memory, error)
	explain(error) error // the cause of the end, or the error while the connection stands
	disconnect()         // has all posted work requests complete
	close() error        // has no work request complete any more, and frees all
}

// memory is a memory region.
type memory interface {
	SGE(off, n int) verbs.SGE
	Addr() uint64
	RKey() uint32
	Close() error
}

// rdmaLink is the one that is none of a test's.
type rdmaLink struct{ *rdmacm.Conn }

func (l rdmaLink) PostSend(wrs []verbs.SendWR) (int, error) { return l.QP().PostSend(wrs) }
func (l rdmaLink) PostRecv(wrs []verbs.RecvWR) (int, error) { return l.QP().PostRecv(wrs) }
func (l rdmaLink) disconnect()                              { _ = l.Disconnect() }

// close takes a connection that was closed through Conn.CM for closed.
func (l rdmaLink) close() error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// explain does not let rdmacm's word of a flushed receive stand for a send that failed before:
// the receive may have been polled first.
func (l rdmaLink) explain(err error) error {
	if cause := l.Explain(err); !errors.Is(cause, verbs.StatusWRFlushErr) {
		return cause
	}
	return err
}

func (l rdmaLink) register(b []byte, access verbs.Access) (memory, error) {
	return l.PD().RegMR(b, access)
}
