//go:build !linux

package ioctl

import "errors"

// Open fails but for what stands in for a device: uverbs is an interface of the Linux
// kernel.
func Open(path string, _ uint64) (File, error) {
	if f := named(path); f != nil {
		return f, nil
	}
	return nil, errors.ErrUnsupported
}
