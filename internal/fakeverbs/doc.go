// Package fakeverbs is a kernel for tests. It answers the requests that package ioctl builds as the
// uverbs core and the drivers of devices do, without a kernel module or root.
//
// It is as strict as the kernel. Attributes must have the kind and length that the method
// specifies, handles must exist, objects in use can't be destroyed, and calls that a driver
// lacks are not supported. Numbers are reused at once, lowest first, as in the kernel.
// [Kernel.Fail] makes a call fail, [Kernel.Tamper] can change any answer,
// and [Kernel.Leaks] lists the objects that were not closed.
//
// This package is the part that all devices share. Each device has a package below it, with a
// [Model] of its driver and queues, which registers a [Driver] in the constructor table
// ([Register]). Package models registers all of them. A driver without an entry is unknown
// hardware: the fake makes the checks of the core and those that all drivers of
// hardware make, and reads no private bytes. A new device adds a package, and changes no file here.
//
// The layout of queues is that of the driver. They are in Go memory, so the race detector sees both sides. A
// model reads and writes its side byte by byte, with the layout of the kernel's
// headers, and doesn't use the rings of package mmap. Nothing happens by itself. A unit test acts as
// the driver with [QP.Carry] and the methods of the device packages' queues. A network, such
// as package rdmatest, is notified of doorbells through Kernel.Rang. It takes and completes sends of
// any driver with [QP.TakeSend], [QP.Sent] and similar methods.
package fakeverbs
