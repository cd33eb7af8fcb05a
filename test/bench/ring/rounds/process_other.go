//go:build !linux

package rounds

// process is of Linux only, as the devices are that are a process.
type process struct{}

func parent() *process { return nil }

func (*process) stop() {}
func (*process) goOn() {}
