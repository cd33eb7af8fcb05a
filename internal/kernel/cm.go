package kernel

import "context"

// CMPath is the running kernel's connection manager.
const CMPath = "/dev/infiniband/rdma_cm"

// CM is an open event channel of a connection manager. in is a whole command, header
// first; out is the memory that the command's response pointer names, so that a
// stand-in for the kernel needs no pointers to answer. Only Await may be called by one
// goroutine at a time.
type CM interface {
	// Command issues one command. A refusal is a bare syscall.Errno.
	Command(in, out []byte) error
	// Await is Command for GET_EVENT: it parks the goroutine until the file is
	// readable, for as long as the kernel answers EAGAIN. It returns ctx.Err() when
	// ctx ends first.
	Await(ctx context.Context, in, out []byte) error
	// Descriptor lends the file descriptor, which stays open meanwhile.
	Descriptor(use func(fd uint32)) error
	Close() error
}

// Watchable is a CM that tells how many events wait in it.
type Watchable interface {
	// Watch has changed called each time that the number changes. changed must not call
	// the CM.
	Watch(changed func(waiting int))
}
