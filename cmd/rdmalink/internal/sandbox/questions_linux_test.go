package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/questions"
)

// TestQuestions holds each kind of device to the table that those of Linux are held to.
func TestQuestions(t *testing.T) {
	long(t)
	program := questionsProgram(t)
	for kind, device := range map[string]string{"rxe": "rxe0", "siw": "siw0", "erdma": "erdma0", "mlx5": "mlx5_0"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			questions.Check(t, kind+"-model", func(patience time.Duration, groups ...string) (string, error) {
				words := []string{program, "-w", fmt.Sprint(patience.Milliseconds()), device, "198.51.100.1"}
				out, err := inside(t, []string{"-d", kind}, slices.Concat(words, groups)...)
				if out != "" { // the sandbox fails because it notices the misuse that questions are about
					err = nil
				}
				return out, err
			})
		})
	}
}

// questionsProgram compiles the program that asks.
func questionsProgram(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob("../../../../test/questions/program/*.[ch]")
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, source := range sources {
		needFile(t, source)
		if name := filepath.Base(source); name != "questions.c" && filepath.Ext(name) == ".c" {
			others = append(others, source)
		}
	}
	return core{}.compiled(t, "../../../../test/questions/program/questions.c", others...)
}
