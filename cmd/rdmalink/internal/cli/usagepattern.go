package cli

import (
	"slices"
	"strings"
	"unicode"
)

// argsPattern is the parsed form of Command.Args, from which completion learns the
// words that may follow: [ ] is optional, | separates alternatives, { } groups, ...
// repeats, and a word in capitals is a placeholder for a word that the user chooses.
type argsPattern struct {
	kind  argsKind
	word  string // of a leaf: on, DEV, DEV[/PORT]
	parts []*argsPattern
}

type argsKind int

const (
	argsLeaf argsKind = iota
	argsSequence
	argsChoice
	argsOptional
	argsRepeat
)

// IsPlaceholder reports whether a word of a usage line stands for a word that the user
// chooses.
func IsPlaceholder(word string) bool {
	return strings.IndexFunc(word, unicode.IsUpper) == 0
}

// parseArgs parses the arguments of a usage line.
func parseArgs(args string) *argsPattern {
	tokens := argsTokens(args)
	return parseChoice(&tokens)
}

// argsTokens splits the arguments into tokens. A bracket that follows a letter belongs
// to the word before it.
func argsTokens(args string) []string {
	var tokens []string
	for field := range strings.FieldsSeq(args) {
		for field != "" {
			n := 1
			if !strings.ContainsRune("[]{}|.", rune(field[0])) {
				n = wordLength(field)
			} else if strings.HasPrefix(field, "...") {
				n = 3
			}
			tokens = append(tokens, field[:n])
			field = field[n:]
		}
	}
	return tokens
}

// wordLength returns the length of the word at the beginning of a field.
func wordLength(field string) int {
	depth := 0
	for i, c := range field {
		switch {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case strings.ContainsRune("]}|.", c) && depth == 0:
			return i
		}
	}
	return len(field)
}

func parseChoice(tokens *[]string) *argsPattern {
	choice := &argsPattern{kind: argsChoice}
	for {
		choice.parts = append(choice.parts, parseSequence(tokens))
		if len(*tokens) == 0 || (*tokens)[0] != "|" {
			return choice
		}
		*tokens = (*tokens)[1:]
	}
}

func parseSequence(tokens *[]string) *argsPattern {
	seq := &argsPattern{kind: argsSequence}
	for len(*tokens) > 0 && !slices.Contains([]string{"|", "]", "}"}, (*tokens)[0]) {
		token := (*tokens)[0]
		*tokens = (*tokens)[1:]
		part := &argsPattern{kind: argsLeaf, word: token}
		switch token {
		case "[":
			part = &argsPattern{kind: argsOptional, parts: []*argsPattern{parseChoice(tokens)}}
			closeBracket(tokens)
		case "{":
			part = parseChoice(tokens)
			closeBracket(tokens)
		case "...":
			if n := len(seq.parts); n > 0 {
				seq.parts[n-1] = &argsPattern{kind: argsRepeat, parts: []*argsPattern{seq.parts[n-1]}}
			}
			continue
		}
		seq.parts = append(seq.parts, part)
	}
	return seq
}

func closeBracket(tokens *[]string) {
	if len(*tokens) > 0 {
		*tokens = (*tokens)[1:]
	}
}

// next calls want for every word that may follow the typed words. If the pattern ends
// before they do, it calls goOn with the words that are left.
func (p *argsPattern) next(typed []string, want func(word string), goOn func(left []string)) {
	switch p.kind {
	case argsLeaf:
		switch {
		case len(typed) == 0:
			want(p.word)
		case IsPlaceholder(p.word) || typed[0] != "" && strings.HasPrefix(p.word, typed[0]):
			goOn(typed[1:])
		}
	case argsChoice:
		for _, part := range p.parts {
			part.next(typed, want, goOn)
		}
	case argsSequence:
		sequenceNext(p.parts, typed, want, goOn)
	case argsOptional:
		p.parts[0].next(typed, want, goOn)
		goOn(typed)
	case argsRepeat:
		p.parts[0].next(typed, want, func(left []string) {
			if len(left) < len(typed) {
				p.next(left, want, goOn)
			}
			goOn(left)
		})
	}
}

func sequenceNext(parts []*argsPattern, typed []string, want func(string), goOn func([]string)) {
	if len(parts) == 0 {
		goOn(typed)
		return
	}
	parts[0].next(typed, want, func(left []string) { sequenceNext(parts[1:], left, want, goOn) })
}

// WordsAfter lists the words of the usage line that may follow the typed words.
func WordsAfter(args string, typed []string) []string {
	var all []string
	add := func(word string) {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	parseArgs(args).next(typed, add, func([]string) {})
	return all
}
