//go:build !linux

package kernel

import "errors"

func openCM() (CM, error) { return nil, errors.ErrUnsupported }
