//go:build !linux

package mmap

import "errors"

const hugePage = 2 << 20

func mapFile(int, int64, int, Prot) ([]byte, error) { return nil, errors.ErrUnsupported }

func mapAnonymous(int, *AnonymousOptions) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapMemory([]byte) error { return errors.ErrUnsupported }
