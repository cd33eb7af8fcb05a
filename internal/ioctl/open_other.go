//go:build !linux

package ioctl

import "errors"

// Open fails: uverbs is an interface of the Linux kernel.
func Open(string, uint64) (File, error) { return nil, errors.ErrUnsupported }
