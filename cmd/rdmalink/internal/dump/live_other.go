//go:build !linux

package dump

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
)

func listen(_ context.Context, netdev string, _ func(string, ...any)) (capture.Source, func() error, error) {
	return nil, nil, fmt.Errorf("listen to %s: only on Linux: %w", netdev, errors.ErrUnsupported)
}
