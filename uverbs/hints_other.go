//go:build !linux

package uverbs

import (
	"github.com/goverbs/goverbs/verbs"
)

func mrHint(error, verbs.Access, int) string { return "" }

func makedev(uint32, uint32) uint64 { return 0 }

func nodeHint(error, DeviceInfo) string { return "" }
