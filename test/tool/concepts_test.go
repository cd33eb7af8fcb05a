//go:build vm

package tool

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// onDevices are the pages of docs/concepts whose programs run on devices of the kernel. The
// others stop the network, fill the host's memory and the like.
var onDevices = []string{"connections", "events", "keys", "operations", "queues", "read", "receives", "states", "tutorial"}

// otherwise are the lines that differ on Linux 6.12, with those of the page. The page says so.
var otherwise = map[string]map[string]string{
	"keys": {"a window: the byte before: success": "a window: the byte before: remote access error"},
}

// TestConcepts runs them on rxe and siw, and compares their output with the pages, whose
// output is that of the devices of package rdmatest.
func TestConcepts(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.CMLink(t, "siw")
	for _, page := range onDevices {
		t.Run(page, func(t *testing.T) {
			text := string(kit.Must(os.ReadFile("../../docs/concepts/" + page + ".md"))(t))
			_, text, _ = strings.Cut(text, "<!-- run "+page+" -->\n```text\n")
			want, _, ok := strings.Cut(text, "\n```")
			end := kit.Launch(t, exec.Command("../../bin/concepts", "-rxe", "gvrxe0@10.83.0.1", "-siw", "cmlink@10.78.0.1", page)).End()
			for here, there := range otherwise[page] {
				if !strings.Contains(want, there) {
					t.Errorf("%q is not on the page", there)
				}
				want = strings.Replace(want, there, here, 1)
			}
			if got := strings.TrimSuffix(end.Out, "\n"); !ok || end.Code != 0 || got != want {
				t.Errorf("exit code %d, %s\n%s\nwant\n%s", end.Code, end.Err, got, want)
			}
		})
	}
}
