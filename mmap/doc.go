// Package mmap holds memory that a program shares with a kernel or a device:
// regions outside the Go heap, and the two kinds of rings built in them.
package mmap
