// Package ioctl builds and issues RDMA_VERBS_IOCTL requests. It is the one
// place in the module with that system call. A [Command], which is issued again and
// again, goes by write(2) where it may.
//
// A [Request] is a header and up to [MaxAttrs] attributes, laid out as the
// kernel reads them. Attributes carry small inputs by value and everything else
// by address; the request keeps what it points at reachable and on the heap, so
// that neither the collector nor a moving stack can take it away during a call.
//
// [File] is the seam to the kernel: the real one is made by [Open], a fake
// kernel for tests or a software NIC is any other implementation. Whoever
// implements File reads a request through the methods in serve.go.
package ioctl
