// Package netlinkrdma speaks the kernel's NETLINK_RDMA family: it lists RDMA
// devices, their ports, character devices and the objects that live on them,
// and adds and deletes the links of the software drivers (siw, rxe). It needs
// no /sys, no /proc and no device node.
//
// A [Client] does all of it; its zero value talks to the running kernel:
//
//	var c netlinkrdma.Client
//	devices, err := c.Devices()
//
// Objects, of which there may be many, come one by one while the kernel lists
// them (DumpQP, DumpCMID, DumpCQ, DumpMR, DumpPD, DumpContext, DumpSRQ), or by
// their number (GetQP and so on):
//
//	for qp, err := range c.DumpQP(devices[0].Index, nil) {
//
// A dump is no snapshot. The kernel fills one datagram at a time and goes on at
// the same position: what is made meanwhile may be missing, and when an object
// goes away, another one may be.
//
// What the kernel may leave out is an [Opt]. An attribute of a newer kernel is
// ignored, and a value without a name prints as QPState(27).
//
// # Network namespaces
//
// Every call opens a socket of its own and closes it. The socket belongs to
// the network namespace of the calling thread: a program that moves between
// namespaces must hold its thread (runtime.LockOSThread) around the call.
// What the kernel shows depends on it: in exclusive mode only the devices of
// that namespace, in shared mode all of them, but a port's netdev only when
// it lives there too.
//
// # Errors
//
// The kernel's errno is kept: errors.Is(err, syscall.EPERM) works. Beside it
// stand [ErrNotFound], [ErrNoObject], [ErrNoRaw], [ErrNotSupported],
// [ErrPermission], [ErrInvalidName] and [ErrMalformed]. Where the kernel says in
// words what is wrong, the error has them.
//
// Only linux has NETLINK_RDMA. Elsewhere every call fails with
// [ErrNotSupported].
package netlinkrdma
