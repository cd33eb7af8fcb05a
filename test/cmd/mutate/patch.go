//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// patch is a change that somebody wrote down, in a file of the directory patches:
//
//	# uverbs: a child attaches to a parent that is closing
//	-p.graph != o.graph || p.stage != stageOpen
//	+p.graph != o.graph || p.stage == stageClosed
//
// The text may stand in any file of the package, once in all of them, so that a patch
// survives when code moves. Indentation and surrounding text don't matter.
type patch struct {
	pkg, what string
	old, with []string // lines
}

// readPatches reads all files of a directory.
func readPatches(dir string) ([]patch, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []patch
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := parsePatches(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func parsePatches(text string) (all []patch, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch mark, rest := line[:min(len(line), 1)], line[min(len(line), 1):]; {
		case mark == "":
		case mark == "#":
			pkg, what, ok := strings.Cut(strings.TrimSpace(rest), ": ")
			if !ok {
				return nil, fmt.Errorf("line %d: want # package: what is changed", n)
			}
			all = append(all, patch{pkg: pkg, what: what})
		case mark == "-" && len(all) > 0:
			all[len(all)-1].old = append(all[len(all)-1].old, rest)
		case mark == "+" && len(all) > 0:
			all[len(all)-1].with = append(all[len(all)-1].with, rest)
		default:
			return nil, fmt.Errorf("line %d: want #, - or +", n)
		}
	}
	return all, nil
}

// find looks up where in the package the patch belongs.
func (p patch) find() (mutant, error) {
	files, err := sources(p.pkg)
	if err != nil {
		return mutant{}, err
	}
	old, found := trimmed(p.old), []mutant(nil)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return mutant{}, err
		}
		for _, at := range places(string(text), old) {
			found = append(found, mutant{pkg: p.pkg, file: file, text: text, start: at[0], end: at[1],
				with: strings.Join(p.with, "\n"), what: p.what})
		}
	}
	if len(found) != 1 {
		return mutant{}, fmt.Errorf("%s: %s: the text to change stands at %d places", p.pkg, p.what, len(found))
	}
	return found[0], nil
}

// trimmed returns the lines without surrounding space.
func trimmed(lines []string) (all []string) {
	for _, l := range lines {
		all = append(all, strings.TrimSpace(l))
	}
	return all
}

// places finds lines that follow each other, whatever their indentation. Only the first
// may begin, and only the last may end, in the middle of a line of the text.
func places(text string, lines []string) (all [][2]int) {
	if len(lines) == 0 || lines[0] == "" {
		return nil
	}
	for from := 0; ; {
		i := strings.Index(text[from:], lines[0])
		if i < 0 {
			return all
		}
		start := from + i
		if end, ok := follows(text, start+len(lines[0]), lines[1:]); ok {
			all = append(all, [2]int{start, end})
		}
		from = start + 1
	}
}

// follows reports whether the other lines stand behind an offset, and where they end.
func follows(text string, end int, lines []string) (int, bool) {
	for _, l := range lines {
		if end >= len(text) || text[end] != '\n' {
			return 0, false
		}
		for end++; end < len(text) && (text[end] == '\t' || text[end] == ' '); end++ {
		}
		if !strings.HasPrefix(text[end:], l) {
			return 0, false
		}
		end += len(l)
	}
	return end, true
}
