//go:build vm

// Package cm holds the kernel tests of package rdmacm.
package cm

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) error{
		"transfer": kit.TransferUntilKilled,
	})
}
