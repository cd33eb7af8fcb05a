//go:build vm

package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestCompletion has each shell complete the name of a live link.
func TestCompletion(t *testing.T) {
	kit.Only612(t)
	kit.Dummy(t, "gvcompl")
	kit.Link(t, "gvcompl", "rxe", "gvcompl")
	path := filepath.Dir(kit.RdmalinkPath(t)) + ":" + os.Getenv("PATH")
	for shell, program := range map[string]string{
		"bash": `source <(rdmalink completion bash)
			COMP_WORDS=(rdmalink resource show qp link gvcom); COMP_CWORD=5
			_rdmalink rdmalink gvcom link; printf '%s\n' "${COMPREPLY[@]}"`,
		// compinit reads hundreds of files, for which the guest takes minutes.
		"zsh": `compdef() { [[ "$*" == "_rdmalink rdmalink" ]] }; source <(rdmalink completion zsh) || exit 1
			_describe() { print -rl -- ${${(P)2}%%:*} }
			words=(rdmalink resource show qp link gvcom); CURRENT=6; _rdmalink`,
		"fish": `rdmalink completion fish | source
			complete -C "rdmalink resource show qp link gvcom" | string replace -r '\t.*' ''`,
	} {
		cmd := exec.Command(shell, "-c", program)
		cmd.Env = append(os.Environ(), "PATH="+path, "HOME="+t.TempDir())
		got := kit.RunCommand(t, cmd)
		if words := strings.Fields(got.Out); !slices.Equal(words, []string{"gvcompl", "gvcompl/1"}) || got.Code != 0 {
			t.Errorf("%s: %+v", shell, got)
		}
	}
}
