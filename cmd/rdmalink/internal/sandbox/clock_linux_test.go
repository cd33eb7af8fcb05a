package sandbox

import "testing"

// TestClockOnCores checks that libmlx5 says when completions were, and has CQs that raise an event for several.
func TestClockOnCores(t *testing.T) {
	long(t)
	onCores(t, func(t *testing.T, c core) { checksItself(t, c, "clock.c", "-lmlx5") })
}

// TestNullOnCores checks libmlx5's regions without memory. libmlx5 discards data that a completion
// carries for them.
func TestNullOnCores(t *testing.T) {
	long(t)
	onCores(t, func(t *testing.T, c core) { checksItself(t, c, "null.c") })
}

// checksItself runs a program that checks its results itself.
func checksItself(t *testing.T, c core, source string, libraries ...string) {
	t.Helper()
	program := c.compiled(t, "../../../../test/sandbox/"+source, libraries...)
	if out, err := c.inside(t, []string{"-d", "mlx5"}, program); err != nil || out != "all as it should be\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
