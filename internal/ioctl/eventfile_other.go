//go:build !linux

package ioctl

import (
	"os"
	"time"
)

// plainEvents is a file of which nothing is known but that it parks goroutines.
type plainEvents struct{ *os.File }

// EventsOf takes over a file that does not block, a pipe of a fake kernel's.
func EventsOf(f *os.File) (EventFile, error) { return plainEvents{f}, nil }

// Await implements EventFile.
func (plainEvents) Await(time.Duration) bool { return false }
