//go:build vm

package test

import (
	"encoding/json"
	"testing"
)

// TestSelftest: on a kernel's devices all that they offer passes the doctor's self-test.
func TestSelftest(t *testing.T) {
	only612(t)
	for _, typ := range linkTypes() {
		t.Run(typ, func(t *testing.T) {
			dummy(t, "self"+typ, "10.90.2.1/24")
			link(t, "gvself"+typ, typ, "self"+typ)
			noLeak(t)
			got := runCommand(t, doctor(t, "--selftest", "gvself"+typ))
			var all []struct{ Test, Result, Detail string }
			if err := json.Unmarshal([]byte(got.Out), &all); err != nil || got.Code != 0 {
				t.Fatalf("%v: %+v", err, got)
			}
			passed := 0
			for _, l := range all {
				if l.Result == "ok" {
					passed++
				}
			}
			if want := map[string]int{"rxe": 24, "siw": 10}[typ]; passed < want {
				t.Errorf("%d tests are ok, want %d: %+v", passed, want, all)
			}
		})
	}
}
