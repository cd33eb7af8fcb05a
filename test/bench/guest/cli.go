//go:build linux

package main

// cli is to be filled in by its owner.
func cli(b *bench) error { return nil }
