//go:build !linux

package rdmacm

type interrupter func()

// interruptible does nothing, because nothing waits in this kernel.
func interruptible() (interrupt interrupter, done func()) { return func() {}, func() {} }
