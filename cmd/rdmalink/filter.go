package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// filterKey is something that objects of a kind can be picked by.
type filterKey struct {
	name   string
	number bool // the value is a list of numbers and ranges, else of words
}

// filter is one that was asked for.
type filter struct {
	filterKey
	words  []string
	ranges [][2]uint64
}

// filters are all that were asked for. An object passes when it passes each.
type filters []filter

// parseFilters takes pairs of a key, or the beginning of one, and a value, as
// iproute2 has them.
func parseFilters(w *words, keys []filterKey) (filters, error) {
	var all filters
	for w.more() {
		key, err := findKey(w.peek(), keys)
		if err != nil {
			return nil, err
		}
		w.advance()
		if slices.ContainsFunc(all, func(f filter) bool { return f.name == key.name }) {
			return nil, cli.UsageError{Text: fmt.Sprintf("%s is given twice; one %s takes several values: 1,2,5-9", key.name, key.name)}
		}
		value, err := w.value("a value for " + key.name)
		if err != nil {
			return nil, err
		}
		f := filter{filterKey: key, words: strings.Split(value, ",")}
		if key.number {
			if f.ranges, err = parseRanges(key.name, f.words); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// findKey: a whole name, or a beginning that no other one shares.
func findKey(word string, keys []filterKey) (filterKey, error) {
	var found []filterKey
	for _, k := range keys {
		if k.name == word {
			return k, nil
		}
		if strings.HasPrefix(k.name, word) {
			found = append(found, k)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) == 0 {
		found = keys
	}
	all := make([]string, len(found))
	for i, k := range found {
		all[i] = k.name
	}
	return filterKey{}, cli.Expected(word, all...)
}

// parseRanges reads 1 and 5-9 and, because keys are printed so, 0x1f.
func parseRanges(key string, words []string) ([][2]uint64, error) {
	var all [][2]uint64
	for _, word := range words {
		if word == "" {
			continue
		}
		low, high, isRange := strings.Cut(word, "-")
		if !isRange {
			high = low
		}
		first, err1 := parseNumber(low)
		last, err2 := parseNumber(high)
		if err1 != nil || err2 != nil || last < first {
			return nil, cli.UsageError{Text: fmt.Sprintf("%s %q: expected numbers and ranges of them, the lower end first: 1,2,5-9", key, word)}
		}
		all = append(all, [2]uint64{first, last})
	}
	return all, nil
}

func parseNumber(s string) (uint64, error) {
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return strconv.ParseUint(hex, 16, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}

func (f filters) get(name string) *filter {
	for i := range f {
		if f[i].name == name {
			return &f[i]
		}
	}
	return nil
}

// number tells whether a number passes; one that is not known does not.
func (f filters) number(name string, v uint64, known bool) bool {
	one := f.get(name)
	return one == nil || known && slices.ContainsFunc(one.ranges, func(r [2]uint64) bool { return r[0] <= v && v <= r[1] })
}

// word tells whether a word passes, in whatever case; one that is not known
// does not.
func (f filters) word(name, v string, known bool) bool {
	one := f.get(name)
	return one == nil || known && slices.ContainsFunc(one.words, func(w string) bool { return strings.EqualFold(w, v) })
}

// exact is the one number asked for, if it is one.
func (f filters) exact(name string) (uint32, bool) {
	one := f.get(name)
	if one == nil || len(one.ranges) != 1 || one.ranges[0][0] != one.ranges[0][1] || one.ranges[0][0] > 1<<32-1 {
		return 0, false
	}
	return uint32(one.ranges[0][0]), true
}

// text is the value of a filter as it was given.
func (f filters) text(name string) string {
	if one := f.get(name); one != nil {
		return strings.Join(one.words, ",")
	}
	return ""
}
