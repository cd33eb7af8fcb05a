//go:build vm

// Package tool holds the kernel tests of rdmalink's commands, and of the examples.
package tool

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
