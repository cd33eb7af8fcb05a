//go:build !linux

package wait

import (
	"os"
	"time"
)

// plainFile is a file that parks goroutines in the netpoller.
type plainFile struct{ *os.File }

// OpenFile returns a source that owns a non-blocking file, such as a pipe of a fake
// kernel.
func OpenFile(f *os.File) (Source, error) { return plainFile{f}, nil }

// Await implements [Source].
func (plainFile) Await(time.Duration) bool { return false }
