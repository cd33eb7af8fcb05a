package cli

import "fmt"

// ExitCode is the end of another command, which has said why.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
