// Package fakeverbs is a kernel for tests: it answers the requests that package
// ioctl builds as the uverbs core and the siw and rxe drivers do, without a kernel,
// a module or root.
//
// It is as strict as the kernel: attributes must be of the kind and length that
// the method asks for, handles must exist, objects in use refuse to go, and what a
// driver lacks is not supported. Numbers are used again at once, lowest first, as
// the kernel's are. Any call can be told to fail ([Kernel.Fail]), any answer can be
// falsified ([Kernel.Tamper]), and [Kernel.Leaks] tells what was not given back.
//
// Queues are the driver's own, on Go memory so that the race detector sees both
// sides: the SIW and RXE fields of [CQ], [QP] and [SRQ]. The fake reads and writes its
// side of them byte by byte, by the layout that the kernel's headers give, and uses no
// ring of package mmap. Nothing moves by itself. A unit test plays the driver with
// [QP.Carry], [RXEQP.TakeSend], [SIWCQ.Complete] and their like. A network, such as
// package rdmatest, is told of doorbells by Kernel.Rang, and takes and completes sends of
// any driver with [QP.TakeSend], [QP.Sent] and their like. The queues
// of other drivers are between user space and its device: for those the fake refuses
// what the core and every driver of hardware refuse, and reads no private bytes.
package fakeverbs
