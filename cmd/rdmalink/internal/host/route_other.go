//go:build !linux

package host

import "errors"

func kernelRoute(uint16, bool, []byte) ([][]byte, error) { return nil, errors.ErrUnsupported }
