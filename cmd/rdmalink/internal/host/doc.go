// Package host is the interface of rdmalink's commands to the machine: RDMA
// devices, network devices and the kernel's file systems.
package host
