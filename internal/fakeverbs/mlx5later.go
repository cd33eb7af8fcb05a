package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// createWQ refuses: the model has no WQs.
func (*mlx5) createWQ(*WQ, *ioctl.Request) error { return syscall.EOPNOTSUPP }

// createRSSQP refuses, for the same reason.
func (*mlx5) createRSSQP(*QP, *ioctl.Request) error { return syscall.EOPNOTSUPP }
