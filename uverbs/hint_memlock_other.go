//go:build !linux

package uverbs

func mrHint(error, Access, int) string { return "" }
