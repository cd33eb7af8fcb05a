package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FilterKey is a property by which objects of a kind can be selected.
type FilterKey struct {
	Name   string
	Number bool     // the value is a list of numbers and ranges, otherwise of words
	Values []string // the words that objects can have; nil if they can't be listed
}

// WordKey returns a key whose value is a list of words.
func WordKey(name string) FilterKey { return FilterKey{Name: name} }

// EnumKey returns a key whose value is a list of these words, in any case.
func EnumKey(name string, values ...string) FilterKey { return FilterKey{Name: name, Values: values} }

// NumberKey returns a key whose value is a list of numbers and ranges.
func NumberKey(name string) FilterKey { return FilterKey{Name: name, Number: true} }

// Filter is a key and the values that pass.
type Filter struct {
	FilterKey
	Words  []string
	Ranges [][2]uint64
}

// Filters selects the objects that pass every filter of the list.
type Filters []Filter

// ParseFilters takes pairs of a key, or an unambiguous abbreviation of it, and a
// value, up to the end of the line, as iproute2 does.
func ParseFilters(w *Words, keys []FilterKey) (Filters, error) {
	var all Filters
	for w.More() {
		key, err := findKey(w.Peek(), keys)
		if err != nil {
			return nil, err
		}
		w.Advance()
		if slices.ContainsFunc(all, func(f Filter) bool { return f.Name == key.Name }) {
			return nil, UsageError{Text: fmt.Sprintf("%s is given twice; one %s takes several values: 1,2,5-9", key.Name, key.Name)}
		}
		value, err := w.Value("a value for " + key.Name)
		if err != nil {
			return nil, err
		}
		f := Filter{FilterKey: key, Words: strings.Split(value, ",")}
		for _, word := range f.Words {
			if key.Values != nil && word != "" && !slices.ContainsFunc(key.Values, func(v string) bool { return strings.EqualFold(v, word) }) {
				return nil, Expected(word, key.Values...)
			}
		}
		if key.Number {
			if f.Ranges, err = parseRanges(key.Name, f.Words); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// findKey returns the key with this name or unambiguous abbreviation.
func findKey(word string, keys []FilterKey) (FilterKey, error) {
	var found []FilterKey
	for _, k := range keys {
		if k.Name == word {
			return k, nil
		}
		if strings.HasPrefix(k.Name, word) {
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
		all[i] = k.Name
	}
	return FilterKey{}, Expected(word, all...)
}

// parseRanges reads numbers and ranges: 1, 5-9 and, because keys of memory are
// printed so, 0x1f.
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
			return nil, UsageError{Text: fmt.Sprintf("%s %q: expected numbers and ranges of them, the lower end first: 1,2,5-9", key, word)}
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

// Get returns the filter with this key, or nil.
func (f Filters) Get(name string) *Filter {
	for i := range f {
		if f[i].Name == name {
			return &f[i]
		}
	}
	return nil
}

// Number reports whether a number passes. An unknown number passes no filter.
func (f Filters) Number(name string, v uint64, known bool) bool {
	one := f.Get(name)
	return one == nil || known && slices.ContainsFunc(one.Ranges, func(r [2]uint64) bool { return r[0] <= v && v <= r[1] })
}

// Word reports whether a word passes, ignoring case. An unknown word passes no
// filter.
func (f Filters) Word(name, v string, known bool) bool {
	one := f.Get(name)
	return one == nil || known && slices.ContainsFunc(one.Words, func(w string) bool { return strings.EqualFold(w, v) })
}

// Exact returns the value of a filter that selects a single number.
func (f Filters) Exact(name string) (uint32, bool) {
	one := f.Get(name)
	if one == nil || len(one.Ranges) != 1 || one.Ranges[0][0] != one.Ranges[0][1] || one.Ranges[0][0] > 1<<32-1 {
		return 0, false
	}
	return uint32(one.Ranges[0][0]), true
}

// Text returns the value of a filter as the user wrote it.
func (f Filters) Text(name string) string {
	if one := f.Get(name); one != nil {
		return strings.Join(one.Words, ",")
	}
	return ""
}
