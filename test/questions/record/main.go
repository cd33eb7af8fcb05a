// Command record writes the answers of machines into the table of questions. Its input is the
// output of the program, with a line "== MACHINE" before the answers of each.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goverbs/goverbs/test/questions"
)

const file = "test/questions/table.tsv"

func main() {
	if err := record(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func record(in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	table, err := questions.Recorded()
	if err != nil {
		return err
	}
	for _, part := range strings.Split("\n"+string(text), "\n== ")[1:] {
		machine, output, _ := strings.Cut(part, "\n")
		if table[machine], err = questions.Parse(strings.TrimSuffix(output, "\n") + "\n"); err != nil {
			return fmt.Errorf("%s: %w", machine, err)
		}
	}
	return os.WriteFile(file, table.Text(), 0o666)
}
