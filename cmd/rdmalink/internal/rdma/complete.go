package rdma

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// expand lists the words that a word of c's usage line stands for. It returns none
// for a placeholder whose values can't be listed.
func expand(t *cli.Tool, c cli.Command, typed []string, word string) []cli.Candidate {
	if !cli.IsPlaceholder(word) {
		if strings.Contains(c.Args, "KIND") {
			return kindWord(typed, word)
		}
		return plainWords([]string{word})
	}
	name, _, _ := strings.Cut(word, "[")
	switch name {
	case "SMI":
		return []cli.Candidate{{Word: word, About: "type of sub-devices"}}
	case "NETDEV":
		return netdevWords(t)
	case "NAME":
		if len(typed) > 0 { // otherwise the name of a device that is to be added
			return optionalCounterWords(t, typed)
		}
	case "NETNS":
		return plainWords(netnsEntries())
	case "TYPE":
		return []cli.Candidate{{Word: "siw", About: "iWARP over TCP"}, {Word: "rxe", About: "RoCE over UDP"}}
	case "KIND":
		return plainWords(kindNames())
	case "FILTER":
		return filterWords(c, typed)
	case "VALUE":
		return filterValues(t, c, typed)
	}
	return nil
}

func netdevWords(t *cli.Tool) []cli.Candidate {
	list, _ := t.Net.List()
	var all []cli.Candidate
	for _, d := range list {
		all = append(all, cli.Candidate{Word: d.Name, About: "network device"})
	}
	return all
}

func plainWords(words []string) []cli.Candidate {
	all := make([]cli.Candidate, len(words))
	for i, word := range words {
		all[i].Word = word
	}
	return all
}

// netnsEntries lists the names that ip netns add has given.
func netnsEntries() []string {
	entries, _ := os.ReadDir(netnsDir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func kindNames() []string {
	var names []string
	for _, k := range resourceKinds() {
		names = append(names, k.name)
	}
	return names
}

// optionalCounterWords lists the optional counters of the port that was typed first.
func optionalCounterWords(t *cli.Tool, typed []string) []cli.Candidate {
	name, port, err := splitLink(typed[0])
	if err != nil {
		return nil
	}
	d, err := t.RDMA.DeviceByName(name)
	if err != nil {
		return nil
	}
	list, _ := t.RDMA.CounterStatus(d.Index, port)
	var all []cli.Candidate
	for _, s := range list {
		if s.Optional {
			all = append(all, cli.Candidate{Word: s.Name, About: "optional counter"})
		}
	}
	return all
}

// filterWords lists the filters of the command, or of the kind that was typed
// first, except those already given.
func filterWords(c cli.Command, typed []string) []cli.Candidate {
	var all []cli.Candidate
	for _, key := range keysOf(c, typed) {
		if !slices.Contains(typed, key.Name) {
			all = append(all, cli.Candidate{Word: key.Name, About: "filter"})
		}
	}
	return all
}

// keysOf lists the filters of the command, or of the kind that was typed first.
func keysOf(c cli.Command, typed []string) []cli.FilterKey {
	if c.Filters != nil {
		return c.Filters
	}
	return kindOf(typed).keys
}

// kindOf returns the kind that the first word means.
func kindOf(typed []string) resourceKind {
	kinds := resourceKinds()
	i := slices.IndexFunc(kinds, func(k resourceKind) bool { return len(typed) > 0 && strings.HasPrefix(k.name, typed[0]) })
	if i < 0 {
		return resourceKind{}
	}
	return kinds[i]
}

// kindWord returns the word link or dev if objects of the kind are selected by it.
func kindWord(typed []string, word string) []cli.Candidate {
	if slices.ContainsFunc(kindOf(typed).keys, func(k cli.FilterKey) bool { return k.Name == word }) {
		return []cli.Candidate{{Word: word, About: "filter"}}
	}
	return nil
}

// filterValues lists the values of the filter that was typed last, if they are few.
func filterValues(t *cli.Tool, c cli.Command, typed []string) []cli.Candidate {
	switch typed[len(typed)-1] {
	case "dev":
		return t.DeviceWords()
	case "link":
		return append(t.DeviceWords(), t.LinkWords()...)
	}
	for _, key := range keysOf(c, typed) {
		if key.Name == typed[len(typed)-1] {
			return plainWords(key.Values)
		}
	}
	return nil
}

// valueWords lists the names of the values of an enumeration.
func valueWords[T interface {
	~uint8
	fmt.Stringer
}]() []string {
	var all []string
	for v := range T(16) {
		if word := v.String(); !strings.Contains(word, "(") {
			all = append(all, word)
		}
	}
	return all
}
