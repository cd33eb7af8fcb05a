//go:build !linux

package ioctl

import (
	"errors"
	"os"
)

// Open fails: uverbs is an interface of the Linux kernel.
func Open(string, uint64) (File, error) { return nil, errors.ErrUnsupported }

// FromFile fails for the same reason.
func FromFile(*os.File) (File, uint64, error) { return nil, 0, errors.ErrUnsupported }
