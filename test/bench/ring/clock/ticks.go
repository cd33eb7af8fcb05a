//go:build amd64 || arm64

package clock

// Ticks is the clock's reading.
func Ticks() int64
