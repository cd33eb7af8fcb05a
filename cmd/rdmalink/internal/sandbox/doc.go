// Package sandbox runs programs, whatever they are made of, on RDMA devices that are models.
//
// A seccomp filter has the kernel stop each system call that may be about such a device and
// tell the supervisor, which is this process. It answers them: an open of a device node is
// given a descriptor of a file of the supervisor's, an ioctl is carried out by the model,
// and what is about something else goes on to the kernel. Programs need no change, and
// nobody needs privileges.
//
// Everything else runs without a stop. A device's descriptor is of a file in which the queues
// stand, at the offsets where the process maps them. Events come through pipes. sysfs is a
// tree of files.
//
// This is a tool for tests, and no jail: a process can change a path in its memory between
// the supervisor's look at it and the kernel's.
package sandbox
