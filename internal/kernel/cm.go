package kernel

import "context"

// CMPath is the running kernel's connection manager.
const CMPath = "/dev/infiniband/rdma_cm"

// CM is an open event channel of a connection manager. in is a whole command with its
// header. out is the memory at the command's response address, so that a fake kernel can
// answer without pointers. Only one goroutine at a time may call Await. The other methods
// may be called concurrently.
type CM interface {
	// Command issues one command. If the kernel refuses it, the error is a syscall.Errno.
	Command(in, out []byte) error
	// Await is Command for GET_EVENT. While the kernel answers EAGAIN, Await parks the
	// goroutine until the file is readable. It returns ctx.Err() if ctx ends first. An event
	// that waits precedes the end of ctx.
	Await(ctx context.Context, in, out []byte) error
	// Descriptor calls use with the file descriptor, which stays open during the call.
	Descriptor(use func(fd uint32)) error
	Close() error
}

// Watchable is an optional interface of a CM that reports how many events are waiting, to
// whoever opened it for another process.
type Watchable interface {
	// Watch sets a function that is called each time that the number changes, and the process
	// whose IDs netlink lists. changed must not call the CM.
	Watch(owner int, changed func(waiting int))
}
