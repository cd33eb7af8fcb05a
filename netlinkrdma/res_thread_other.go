//go:build !linux

package netlinkrdma

func isOwnThread(uint32) bool { return false }
