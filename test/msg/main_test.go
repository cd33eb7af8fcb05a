//go:build vm

// Package msg holds the kernel tests of package msg, and of connections over a network that fails.
package msg

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) error{
		"host":             echoHost,
		"msg victim":       msgVictim,
		"msg listener":     msgListener,
		"msg mirror":       msgMirror,
		"msg large victim": msgLargeVictim,
		"silent listener":  silentListener,
	})
}
