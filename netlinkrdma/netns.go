package netlinkrdma

import "os"

// Netns is a [Kernel] that asks the running kernel from another network namespace. It needs
// CAP_SYS_ADMIN there. Each call enters the namespace on a thread that ends with the call.
//
//	f, err := os.Open("/run/netns/blue")
//	c := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: f}}
type Netns struct {
	// File is an open /run/netns/NAME or /proc/PID/ns/net. It must stay open while the
	// Client is used.
	File *os.File
}

var _ interface {
	Kernel
	Streamer
	Subscriber
} = Netns{}
