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
// GOVERBS_DEBUG=ioctl prints every request and its result, see package debug.
package ioctl
