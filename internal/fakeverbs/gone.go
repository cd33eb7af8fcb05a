package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// Gone are the queues of a queue pair that was destroyed, whose memory may be another's. A
// network that still knows the queue pair finds nothing there.
type Gone struct{}

func (Gone) EnterError()                          {}
func (Gone) NextSend() (*Work, bool)              { return nil, false }
func (Gone) SendDone(*Work, uint32, bool)         {}
func (Gone) NextRecv() (*Recv, bool)              { return nil, false }
func (Gone) OldestRecv() (*Recv, bool)            { return nil, false }
func (Gone) RecvDone(*Recv, abi.IbUverbsWc, bool) {}
func (Gone) Carry(uint32) bool                    { return false }
func (Gone) Receive(uint32) bool                  { return false }
