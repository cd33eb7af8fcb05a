// Package host is what the commands of rdmalink see of the machine: RDMA devices,
// network devices and the kernel's file systems.
package host
