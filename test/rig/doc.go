//go:build linux

// Package rig boots stock Debian kernels in QEMU and runs a program of this
// repository in them, because most machines have no RDMA in their kernel.
//
// [Fetch] gets everything with apt and builds siw.ko, which Debian leaves out;
// a kernel too new for Debian 12's compiler goes without ([Kernel.Lacks]).
// Beside it gvmovable.ko lets siw's devices move to other network namespaces,
// which those of hardware do.
// [Run] boots a kernel with the host's root as a read-only file system under a
// tmpfs overlay, so the guest sees the same paths, and runs one command there.
// The command test/cmd/vm is both: on the host the tool, in the guest pid 1
// (package guest).
//
// [UML] is another machine to the same end, which runs programs at the host's speed.
//
// No KVM is needed, nothing leaves the guest over a network, and nothing the
// guest writes survives it: a test reports through its output and
// its exit code.
package rig
