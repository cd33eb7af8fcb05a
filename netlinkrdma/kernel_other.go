//go:build !linux

package netlinkrdma

type runningKernel struct{}

func (runningKernel) Execute(Request) ([][]byte, error) { return nil, errNoNetlink }
