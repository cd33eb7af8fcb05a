// Command gen writes docs/verbs.md. It runs in internal/verbtable.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goverbs/goverbs/internal/verbtable"
)

func main() {
	const top = "../.."
	page, err := verbtable.Page(os.DirFS(top))
	if err == nil {
		err = os.WriteFile(filepath.Join(top, "docs/verbs.md"), []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
