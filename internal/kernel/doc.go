// Package kernel is the seam to whatever runs RDMA devices: the running kernel, or one
// in this process that was registered, with devices in software. Discovery, devices and
// connection management of package uverbs and package rdmacm go through it, so a
// device of a registered kernel is found and connected to as any other is.
package kernel
