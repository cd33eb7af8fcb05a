//go:build vm

// Package perf holds the kernel tests of rdmalink perf and rdmalink pingpong.
package perf

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
