//go:build vm

package questions_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/test/questions"
)

// TestQuestionsRXE and TestQuestionsSiw hold the devices of this kernel to the table that those in
// software are held to. Each is the only device of the machine: others answer some questions in its place.
func TestQuestionsRXE(t *testing.T) { askLinux(t, "rxe") }

func TestQuestionsSiw(t *testing.T) {
	kit.NeedSiw(t)
	askLinux(t, "siw")
}

func askLinux(t *testing.T, kind string) {
	kit.NoFabric(t)
	release := strings.SplitN(os.Getenv("GOVERBS_VM"), ".", 3)
	questions.Check(t, kind+"-"+strings.Join(release[:2], "."), func(patience time.Duration, groups ...string) (string, error) {
		words := []string{"./ask.sh", kind, "-w", fmt.Sprint(patience.Milliseconds())}
		cmd := exec.Command("sh", slices.Concat(words, groups)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return string(out), err
	})
}
