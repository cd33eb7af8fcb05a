//go:build !linux

package wait

import (
	"os"
	"time"
)

// plainFile is a file of which nothing is known but that it parks goroutines.
type plainFile struct{ *os.File }

// OpenFile takes over a file that does not block, a pipe of a fake kernel's.
func OpenFile(f *os.File) (Source, error) { return plainFile{f}, nil }

// Await implements [Source].
func (plainFile) Await(time.Duration) bool { return false }
