//go:build vm

// Package siw holds the kernel tests of package uverbs on siw.
package siw

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) error{
		"transfer": kit.TransferUntilKilled,
	})
}
