//go:build !linux

package rdmacm

type interrupter func()

// interruptible does nothing, because no call waits in the kernel on this
// platform.
func interruptible() (interrupt interrupter, done func()) { return func() {}, func() {} }
