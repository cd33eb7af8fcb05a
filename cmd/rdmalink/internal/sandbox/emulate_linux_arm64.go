package sandbox

import "github.com/goverbs/goverbs/uverbs"

// emulate is made for amd64: there was no other machine to try it on.
func emulate(*process) (stored []byte, err error) { return nil, uverbs.ErrNotSupported }

const canTrap = false
