package conn

import (
	"io"
	"net/netip"

	"github.com/goverbs/goverbs/uverbs"
)

// Conn is a connected queue pair and its objects: an rdmacm.Conn or an oob.Conn.
type Conn interface {
	QP() *uverbs.QP
	PD() *uverbs.PD
	SendCQ() *uverbs.CQ
	RecvCQ() *uverbs.CQ
	Device() *uverbs.Device
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	PrivateData() []byte
	SetPrivateData([]byte)
	InitiatorDepth() int
	Own(io.Closer)
	Done() <-chan struct{}
	Explain(error) error
	Disconnect() error
	Close() error
}

// Unauthorized is the error of a peer that the program refused. The peer does not learn the reason.
type Unauthorized struct{ Err error }

func (e Unauthorized) Error() string { return e.Err.Error() }
func (e Unauthorized) Unwrap() error { return e.Err }
