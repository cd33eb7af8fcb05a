//go:build vm

// Package rxe holds the kernel tests of package uverbs on rxe.
package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) error{
		"memory on demand": registerOnDemand,
		"privileged Q_Key": takePrivilegedQKey,
		"rxe new user":     rxeChangeUser,
		"rxe victim":       rxeVictim,
	})
}
