//go:build !linux

package rdmacm

type interrupter func()

// interruptible: without a kernel file, nothing waits.
func interruptible() (interrupt interrupter, done func()) { return func() {}, func() {} }
