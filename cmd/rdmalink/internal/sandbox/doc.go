// Package sandbox runs programs, in any language, on RDMA devices that are models.
//
// A seccomp filter makes the kernel stop each system call that may concern such a device, and
// notify the supervisor, which is this process. The supervisor answers the call: for an open
// of a device node it returns a descriptor of a file of its own, an ioctl is carried out by
// the model, and calls that concern something else continue in the kernel. Programs need no
// change and no privileges.
//
// Everything else runs without a stop. The descriptor of a device belongs to a file that
// contains the queues, at the offsets where the process maps them. Events come through pipes.
// sysfs is a tree of files.
//
// This is a tool for tests, not a security boundary: a process can change a path in its
// memory after the supervisor has read it and before the kernel does.
package sandbox
