//go:build !unix

package debug

import "syscall"

// errnoName returns "": nothing here asks a kernel that has RDMA.
func errnoName(syscall.Errno) string { return "" }
