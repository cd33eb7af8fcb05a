//go:build !linux

package rounds

import "runtime"

func yield() { runtime.Gosched() }
