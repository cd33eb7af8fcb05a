//go:build !linux

package top

import (
	"errors"
	"io"
)

func openScreen(io.Reader, io.Writer) (*screen, error) { return nil, errors.ErrUnsupported }
