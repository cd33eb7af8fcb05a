package sandbox

import "testing"

// TestClock: libmlx5 says when completions were, and has CQs that raise an event for several.
func TestClock(t *testing.T) {
	long(t)
	program := compiled(t, "../../../../test/sandbox/clock.c", "-lmlx5")
	if out, err := inside(t, []string{"-d", "mlx5"}, program); err != nil || out != "all as it should be\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNull checks libmlx5's regions without memory. libmlx5 discards data that a completion
// carries for them.
func TestNull(t *testing.T) {
	long(t)
	program := compiled(t, "../../../../test/sandbox/null.c")
	if out, err := inside(t, []string{"-d", "mlx5"}, program); err != nil || out != "all as it should be\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
