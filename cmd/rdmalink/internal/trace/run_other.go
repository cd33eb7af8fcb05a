//go:build !linux

package trace

import (
	"context"
	"errors"
	"fmt"
)

func follow(context.Context, []string, func(*Call) error) error {
	return fmt.Errorf("trace: only on Linux: %w", errors.ErrUnsupported)
}
