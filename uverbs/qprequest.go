package uverbs

// QPRequest asks a provider for a QP.
type QPRequest struct {
	creation
	// Type of the QP. It has a receive queue of its own unless HasSRQ.
	Type   QPType
	HasSRQ bool
	// Cap as asked for, after Create as the kernel granted it. The provider
	// lowers or raises what its queues really hold.
	Cap QPCap
	// SignalAll is set when every send completes with a CQE.
	SignalAll bool
	// Handle and Num are known after Create.
	Handle, Num uint32
	// SendFlush and RecvFlush take completions that the provider makes itself.
	SendFlush, RecvFlush Flusher

	qp *QP
}

// Doorbell returns the doorbell of drivers whose doorbell is a system call
// (POST_SEND without work requests). Ring it with the send queue held, after
// Create. It allocates nothing.
func (r *QPRequest) Doorbell() *Doorbell { return newDoorbell(r.qp.dev, r.Handle) }

// State is where the QP is, as far as this process moved it. A QP that failed by
// itself may still seem to be in RTS.
func (r *QPRequest) State() QPState { return QPState(r.qp.state.Load()) }

// Failed tells that Fail was called, and that the QP was not put into RESET since.
// Ask with one of the queues held.
func (r *QPRequest) Failed() bool { return r.qp.failing.Load() }

// PD is the protection domain of the QP.
func (r *QPRequest) PD() *PD { return r.qp.pd }

// MoveToError puts the QP into the error state in the kernel.
func (r *QPRequest) MoveToError() error { return r.qp.modifyState(QPStateErr) }
