//go:build !linux

package uverbs

func makedev(uint32, uint32) uint64 { return 0 }

func nodeHint(error, DeviceInfo) string { return "" }
