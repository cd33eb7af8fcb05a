package driver

import "errors"

// The errors of providers that users never see. Package verbs has the others.
var (
	// ErrQPFailing is how PostSend says that the device is letting go of the QP. What
	// was posted will be flushed.
	ErrQPFailing = errors.New("QP is going to the error state")
)
