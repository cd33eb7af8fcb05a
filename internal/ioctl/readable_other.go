//go:build !linux

package ioctl

import "time"

func readable(uintptr, time.Duration) bool { return false }
