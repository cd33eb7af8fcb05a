package main

import (
	"regexp"
	"slices"
	"strings"
)

// candidate is a word that may come next, with what to say of it.
type candidate struct{ word, about string }

// complete lists what the last word may be, of a command line without the
// program's name.
func (t *tool) complete(line []string) []candidate {
	if len(line) == 0 {
		line = []string{""}
	}
	before, last := line[:len(line)-1], line[len(line)-1]
	path, typed, valueOf := followWords(before)
	c := path[len(path)-1]
	var all []candidate
	switch {
	case valueOf != "":
		all = t.expand(path, typed, valueOf)
	case strings.HasPrefix(last, "-"):
		all = optionCandidates(path)
	default:
		if len(typed) == 0 {
			for _, s := range c.sub {
				all = append(all, candidate{s.name(), s.summary})
			}
		}
		for _, word := range wordsAfter(c.args, typed) {
			all = append(all, t.expand(path, typed, word)...)
		}
	}
	var begun []candidate
	for _, one := range all {
		known := slices.ContainsFunc(begun, func(c candidate) bool { return c.word == one.word })
		if strings.HasPrefix(one.word, last) && !known {
			begun = append(begun, one)
		}
	}
	return begun
}

// followWords finds the command that words lead to, and what is typed after it.
// valueOf is what has to follow when they end with an option that takes it.
func followWords(line []string) (path []command, typed []string, valueOf string) {
	path = []command{root()}
	for _, word := range line {
		c := path[len(path)-1]
		if valueOf != "" {
			valueOf = ""
			continue
		}
		if strings.HasPrefix(word, "-") && word != "-" {
			valueOf = takesValue(path, word)
			continue
		}
		if len(typed) == 0 && len(c.sub) > 0 {
			if next, err := c.find(word); err == nil {
				path = append(path, next)
				continue
			}
		}
		typed = append(typed, word)
	}
	return path, typed, valueOf
}

// rawOption is a line of the details of a command that reads its own options.
var rawOption = regexp.MustCompile(`(?m)^  ( *-\w)?,? *(--[\w-]+)?(?:[= ]([A-Z]+))? +(.*)$`)

// wholeOption is an option as completion has it.
type wholeOption struct{ short, long, value, about string }

// allOptions are those that hold at the end of the path; a raw command has only
// its own.
func allOptions(path []command) []wholeOption {
	var all []wholeOption
	if c := path[len(path)-1]; c.raw {
		for _, m := range rawOption.FindAllStringSubmatch(c.details, -1) {
			if m[1] != "" || m[2] != "" {
				all = append(all, wholeOption{strings.TrimSpace(m[1]), m[2], m[3], m[4]})
			}
		}
		return all
	}
	for _, o := range optionsOf(path) {
		all = append(all, wholeOption{o.short, o.long, o.value, o.summary})
	}
	return all
}

func optionCandidates(path []command) []candidate {
	var all []candidate
	for _, o := range allOptions(path) {
		for _, word := range []string{o.short, o.long} {
			if word != "" {
				all = append(all, candidate{word, o.about})
			}
		}
	}
	return all
}

// takesValue is what has to follow the word of an option, if anything.
func takesValue(path []command, word string) string {
	for _, o := range allOptions(path) {
		if word == o.short || word == o.long {
			return o.value
		}
	}
	return ""
}
