//go:build vm

// Package device holds the kernel tests of opening devices, and of everything that devices refuse.
package device

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) error{
		"memory too big": registerTooMuch,
		"new user":       changeUser,
		"open":           openBoth,
		"removed":        removedUser,
		"rxe passed":     rxePassed,
	})
}
