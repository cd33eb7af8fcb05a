package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Candidate is a word that may come next, with a description.
type Candidate struct{ Word, About string }

// Complete lists the possible completions of the last word of a command line,
// which lacks the program's name.
func (t *Tool) Complete(root Command, line []string) []Candidate {
	if len(line) == 0 {
		line = []string{""}
	}
	before, last := line[:len(line)-1], line[len(line)-1]
	path, typed, valueOf := FollowWords(root, before)
	c := path[len(path)-1]
	var all []Candidate
	switch {
	case valueOf != "":
		all = t.expand(path, typed, valueOf)
	case strings.HasPrefix(last, "-"):
		all = optionCandidates(path)
	default:
		if len(typed) == 0 {
			all = commandCandidates(c)
		}
		for _, word := range WordsAfter(c.Args, typed) {
			all = append(all, t.expand(path, typed, word)...)
		}
	}
	var begun []Candidate
	for _, one := range all {
		known := slices.ContainsFunc(begun, func(c Candidate) bool { return c.Word == one.Word })
		if strings.HasPrefix(one.Word, last) && !known {
			begun = append(begun, one)
		}
	}
	return begun
}

// FollowWords returns the path to the command that the words lead to, and the
// words that follow the command. If the line ends with an option whose value is
// missing, valueOf is the placeholder of that value.
func FollowWords(root Command, line []string) (path []Command, typed []string, valueOf string) {
	path = []Command{root}
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
		if len(typed) == 0 && len(c.Sub) > 0 {
			if next, err := c.find(word); err == nil {
				path = append(path, next)
				continue
			}
		}
		typed = append(typed, word)
	}
	return path, typed, valueOf
}

// expand lists the words that a word of a usage line stands for. It returns none
// for a placeholder whose values can't be listed.
func (t *Tool) expand(path []Command, typed []string, word string) []Candidate {
	name, _, _ := strings.Cut(word, "[")
	switch {
	case name == "DEV" && strings.Contains(word, "/PORT"):
		return append(t.DeviceWords(), t.LinkWords()...)
	case name == "DEV":
		return t.DeviceWords()
	case name == "DEV/PORT":
		return t.LinkWords()
	case name == "COMMAND":
		return helpWords(path, typed)
	}
	c := path[len(path)-1]
	for _, above := range slices.Backward(path) {
		if above.Expand != nil {
			return above.Expand(t, c, typed, word)
		}
	}
	if !IsPlaceholder(word) {
		return []Candidate{{word, ""}}
	}
	return nil
}

// DeviceWords lists the RDMA devices.
func (t *Tool) DeviceWords() []Candidate {
	devices, _ := t.RDMA.Devices()
	var all []Candidate
	for _, d := range devices {
		all = append(all, Candidate{d.Name, strings.TrimSpace(d.Protocol + " device")})
	}
	return all
}

// LinkWords lists the ports of the RDMA devices.
func (t *Tool) LinkWords() []Candidate {
	devices, _ := t.RDMA.Devices()
	var all []Candidate
	for _, d := range devices {
		for port := range d.Ports {
			all = append(all, Candidate{fmt.Sprintf("%s/%d", d.Name, port+1), "port"})
		}
	}
	return all
}

// helpWords lists the commands that may follow help and the words typed after it.
func helpWords(path []Command, typed []string) []Candidate {
	c := path[len(path)-2]
	for _, word := range typed {
		next, err := c.find(word)
		if err != nil {
			return nil
		}
		c = next
	}
	return commandCandidates(c)
}

func commandCandidates(c Command) []Candidate {
	var all []Candidate
	for _, s := range c.Sub {
		all = append(all, Candidate{s.Name(), s.Summary})
	}
	return all
}

// rawOption matches an option in the details of a command that parses its own
// options.
var rawOption = regexp.MustCompile(`(?m)^  ( *-\w)?,? *(--[\w-]+)?(?:[= ]([A-Z]+))? +(.*)$`)

// optionWords is an option as completion needs it.
type optionWords struct{ short, long, value, about string }

// allOptions lists the options that are valid at the end of the path. A raw
// command has only its own.
func allOptions(path []Command) []optionWords {
	var all []optionWords
	if c := path[len(path)-1]; c.Raw {
		for _, m := range rawOption.FindAllStringSubmatch(c.Details, -1) {
			if m[1] != "" || m[2] != "" {
				all = append(all, optionWords{strings.TrimSpace(m[1]), m[2], m[3], m[4]})
			}
		}
		return all
	}
	for _, o := range optionsOf(path) {
		all = append(all, optionWords{o.Short, o.Long, o.Value, o.Summary})
	}
	return all
}

func optionCandidates(path []Command) []Candidate {
	var all []Candidate
	for _, o := range allOptions(path) {
		for _, word := range []string{o.short, o.long} {
			if word != "" {
				all = append(all, Candidate{word, o.about})
			}
		}
	}
	return all
}

// takesValue returns the placeholder of an option's value, or the empty string.
func takesValue(path []Command, word string) string {
	for _, o := range allOptions(path) {
		if word == o.short || word == o.long {
			return o.value
		}
	}
	return ""
}
