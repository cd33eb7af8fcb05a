package sandbox

import "github.com/goverbs/goverbs/verbs"

// emulate is made for amd64: there was no other machine to try it on.
func emulate(*process) (stored []byte, err error) { return nil, verbs.ErrNotSupported }

const canTrap = false
