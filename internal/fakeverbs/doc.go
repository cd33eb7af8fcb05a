// Package fakeverbs is a kernel for tests: it answers the requests that package ioctl builds
// as the uverbs core and the drivers of devices do, without a kernel, a module or root.
//
// It is as strict as the kernel: attributes must be of the kind and length that the method
// asks for, handles must exist, objects in use refuse to be destroyed, and calls that a driver
// lacks are not supported. Numbers are used again at once, lowest first, as the kernel's are.
// Any call can be made to fail ([Kernel.Fail]), any answer can be falsified ([Kernel.Tamper]),
// and [Kernel.Leaks] lists the objects that were not closed.
//
// This package is the half that all devices share. Each device has a package below it, with a
// [Model] of its driver and queues, which registers a [Driver] in the constructor table
// ([Register]); package models registers all of them. A driver without an entry is hardware of
// which nothing is known: the fake makes the checks of the core and of every driver of
// hardware, and reads no private bytes. A new device adds a package, and changes no file here.
//
// Queues are the driver's own, on Go memory so that the race detector sees both sides. A
// model reads and writes its side of them byte by byte, by the layout that the kernel's
// headers give, and uses no ring of package mmap. Nothing moves by itself. A unit test plays
// the driver with [QP.Carry] and the methods of the device packages' queues. A network, such
// as package rdmatest, learns of doorbells by Kernel.Rang, and takes and completes sends of
// any driver with [QP.TakeSend], [QP.Sent] and similar methods.
package fakeverbs
