//go:build !linux

package rtnetlink

import "errors"

func kernel(uint16, bool, []byte) ([][]byte, error) { return nil, errors.ErrUnsupported }
