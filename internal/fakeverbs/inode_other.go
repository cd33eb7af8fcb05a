//go:build !linux

package fakeverbs

import "errors"

func inode(int32) (uint64, error) { return 0, errors.ErrUnsupported }
