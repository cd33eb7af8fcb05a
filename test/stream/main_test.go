//go:build vm

// Package stream holds the kernel tests of package rsocket.
package stream

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
