package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// gone are the queues of a queue pair that was destroyed, whose memory may be another's. A
// network that still knows the queue pair finds nothing there.
type gone struct{}

func (gone) fail()                                {}
func (gone) nextSend() (*Work, bool)              { return nil, false }
func (gone) sendDone(*Work, uint32, bool)         {}
func (gone) nextRecv() (*Recv, bool)              { return nil, false }
func (gone) oldestRecv() (*Recv, bool)            { return nil, false }
func (gone) recvDone(*Recv, abi.IbUverbsWc, bool) {}
func (gone) carry(uint32) bool                    { return false }
func (gone) receive(uint32) bool                  { return false }
