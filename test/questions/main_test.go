//go:build vm

package questions_test

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
