package sandbox

import "github.com/goverbs/goverbs/verbs"

// emulate is implemented for amd64 only, because no other machine was available for
// tests.
func emulate(*process) (stored []byte, err error) { return nil, verbs.ErrNotSupported }

func callInstead(int, []int, int, func() error) error { return verbs.ErrNotSupported }

const canTrap = false
