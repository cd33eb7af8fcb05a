//go:build !linux

package uverbs

import (
	"github.com/goverbs/goverbs/verbs"
)

func registerHint(error, verbs.Access) string { return "" }

func memlockHint(int) string { return "" }

func makedev(uint32, uint32) uint64 { return 0 }

func nodeHint(error, DeviceInfo) string { return "" }
