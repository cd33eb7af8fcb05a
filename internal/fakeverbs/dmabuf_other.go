//go:build !linux

package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/mmap"
)

func exported(int, uint64, uint64, uint64) (*mmap.Region, error) { return nil, syscall.EINVAL }
