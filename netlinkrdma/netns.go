package netlinkrdma

import "os"

// Netns is the running kernel as another network namespace sees it, for
// [Client.Kernel]. It needs CAP_SYS_ADMIN there. Threads are borrowed: none that
// the program goes on with is left in the namespace.
//
//	f, err := os.Open("/run/netns/blue")
//	c := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: f}}
type Netns struct {
	// File is an open /run/netns/NAME or /proc/PID/ns/net, kept open as long as
	// the Client is used.
	File *os.File
}

var _ interface {
	Kernel
	Streamer
	Subscriber
} = Netns{}
