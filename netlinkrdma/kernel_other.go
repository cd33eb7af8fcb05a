//go:build !linux

package netlinkrdma

type runningKernel struct{}

func (runningKernel) Execute(Request) ([][]byte, error) { return nil, errNoNetlink }

func dial() (link, error) { return nil, errNoNetlink }

// Subscribe fails with ErrNotSupported.
func (s *Socket) Subscribe() (Subscription, error) { return nil, errNoNetlink }

// Execute fails with ErrNotSupported.
func (Netns) Execute(Request) ([][]byte, error) { return nil, errNoNetlink }

// Stream fails with ErrNotSupported.
func (Netns) Stream(Request, func([]byte) bool) error { return errNoNetlink }

// Subscribe fails with ErrNotSupported.
func (Netns) Subscribe() (Subscription, error) { return nil, errNoNetlink }

func isOwnThread(uint32) bool { return false }
