//go:build linux

package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSkip(t *testing.T) {
	times := map[string]int{"TestB": 2, "TestA": 1}
	for _, c := range []struct{ args, want []string }{
		{[]string{"x.test", "-test.v=true"}, []string{"x.test", "-test.skip=^(TestA|TestB)$", "-test.v=true"}},
		{[]string{"x.test", "-test.count=2", "-test.skip=Slow"}, []string{"x.test", "-test.skip=Slow|^(TestB)$", "-test.count=2"}},
		{[]string{"env", "A=b", "x.test", "-test.v"}, []string{"env", "A=b", "x.test", "-test.skip=^(TestA|TestB)$", "-test.v"}},
		{[]string{"x.test", "-test.count=3"}, []string{"x.test", "-test.count=3"}},
	} {
		if diff := cmp.Diff(c.want, skip(c.args, times)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFinished(t *testing.T) {
	const said = "=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n    --- FAIL: TestB/x (0.00s)\n" +
		"--- SKIP: TestC (0.01s)\n--- FAIL: TestD (1.00s)\nsays --- PASS: TestE (0.00s)\n--- PASS: TestF"
	for _, size := range []int{1, 7, len(said)} {
		var out bytes.Buffer
		f := &finished{to: &out, times: make(map[string]int)}
		for text := []byte(said); len(text) > 0; {
			n := min(size, len(text))
			f.Write(text[:n])
			text = text[n:]
		}
		f.endLine()
		if diff := cmp.Diff(map[string]int{"TestA": 1, "TestC": 1, "TestD": 1}, f.times); diff != "" {
			t.Error(diff)
		}
		if f.failed != 2 || f.bytes != len(said) || out.String() != said+"\n" {
			t.Errorf("%d failed, %d bytes, output %q", f.failed, f.bytes, &out)
		}
	}
}
