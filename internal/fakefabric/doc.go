// Package fakefabric is a machine with one RDMA device, for tests of what stands above
// package rdmacm. Its queue pairs carry data to each other, and its connection manager
// connects them. No kernel, module or root is needed.
//
// It is strict: what a real device would end a connection for, such as a message without
// a receive, a key that does not allow the access, or a work request beyond the end of
// lent memory, is an error of the test. Any command of the connection manager can be
// refused ([Fabric.Fail]) or held up for good ([Fabric.Hold]); calls to the device fail as
// package fakeverbs lets them. When the test ends nothing may be left.
package fakefabric
