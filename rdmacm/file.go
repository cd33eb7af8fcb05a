package rdmacm

import "context"

const devicePath = "/dev/infiniband/rdma_cm"

// kernelFile is the seam to /dev/infiniband/rdma_cm. in is a whole command,
// header first; out is the memory that the command's response pointer names,
// so that a stand-in for the kernel needs no pointers to answer.
type kernelFile interface {
	// command issues one command. A refusal is a bare syscall.Errno.
	command(in, out []byte) error
	// await is command for GET_EVENT: it parks the goroutine until the file
	// is readable, for as long as the kernel answers EAGAIN. One caller at a
	// time. It returns ctx.Err() when ctx ends first.
	await(ctx context.Context, in, out []byte) error
	// descriptor lends the file descriptor, which stays open meanwhile.
	descriptor(use func(fd uint32)) error
	close() error
}
