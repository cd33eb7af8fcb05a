// Package ioctl builds and issues RDMA_VERBS_IOCTL requests. It is the only package of the
// module that makes this system call. A [Command] uses write(2) where the kernel permits it.
//
// A [Request] is a header and up to [MaxAttrs] attributes, laid out as the kernel reads them.
// Attributes carry small inputs by value and everything else by address. The request keeps
// the memory behind its addresses reachable and on the heap: stacks move, and the kernel
// must not read an old address.
//
// [File] is the seam to the kernel. [Open] returns the running kernel's. A fake kernel for
// tests and a software NIC implement File themselves, and read a request through the methods
// in serve.go.
//
// Three rules hold in this package and nowhere else. An input of up to 8 bytes travels in the
// attribute, anything longer by address. Memory behind an address is on the heap and stays
// alive for the call. EINTR is retried.
//
// Commands without an ioctl method travel in INVOKE_WRITE. A [Command] saves 1050 instructions
// in the kernel each time. The kernel refuses write(2) to a process that has changed its
// credentials since it opened the device; the Command then uses ioctl.
//
// GOVERBS_DEBUG=ioctl prints every request and its result, see package debug.
package ioctl
