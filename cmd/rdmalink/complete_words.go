package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// expand lists the words that a word of a usage line stands for. It returns nothing
// for one that can't be listed or that the user invents.
func (t *tool) expand(path []command, typed []string, word string) []candidate {
	if !placeholder(word) {
		if strings.Contains(path[len(path)-1].args, "KIND") {
			return kindWord(typed, word)
		}
		return []candidate{{word, ""}}
	}
	name, _, _ := strings.Cut(word, "[")
	switch name {
	case "DEV":
		if strings.Contains(word, "/PORT") {
			return append(t.deviceWords(), t.linkWords()...)
		}
		return t.deviceWords()
	case "DEV/PORT":
		return t.linkWords()
	case "SMI":
		return []candidate{{word, "type of sub-devices"}}
	case "NETDEV":
		return t.netdevWords()
	case "NAME":
		if len(typed) > 0 { // of a device that is to be, the user's to invent
			return t.optionalCounterWords(typed)
		}
	case "NETNS":
		return plainWords(netnsEntries())
	case "TYPE":
		return []candidate{{"siw", "iWARP over TCP"}, {"rxe", "RoCE over UDP"}}
	case "COMMAND":
		return commandWords(path, typed)
	case "KIND":
		return plainWords(kindNames())
	case "FILTER":
		return filterWords(path, typed)
	case "VALUE":
		return t.filterValues(typed)
	}
	return nil
}

func (t *tool) deviceWords() []candidate {
	devices, _ := t.RDMA.Devices()
	var all []candidate
	for _, d := range devices {
		all = append(all, candidate{d.Name, strings.TrimSpace(d.Protocol + " device")})
	}
	return all
}

func (t *tool) linkWords() []candidate {
	devices, _ := t.RDMA.Devices()
	var all []candidate
	for _, d := range devices {
		for port := range d.Ports {
			all = append(all, candidate{fmt.Sprintf("%s/%d", d.Name, port+1), "port"})
		}
	}
	return all
}

func (t *tool) netdevWords() []candidate {
	list, _ := t.Net.List()
	var all []candidate
	for _, d := range list {
		all = append(all, candidate{d.Name, "network device"})
	}
	return all
}

func plainWords(words []string) []candidate {
	all := make([]candidate, len(words))
	for i, word := range words {
		all[i].word = word
	}
	return all
}

// netnsEntries are the names that ip netns add keeps.
func netnsEntries() []string {
	entries, _ := os.ReadDir(netnsDir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// commandWords are the commands that help can tell about: those after the ones
// typed, below the command that help is of.
func commandWords(path []command, typed []string) []candidate {
	c := path[len(path)-2]
	for _, word := range typed {
		next, err := c.find(word)
		if err != nil {
			return nil
		}
		c = next
	}
	var all []candidate
	for _, s := range c.sub {
		all = append(all, candidate{s.name(), s.summary})
	}
	return all
}

func kindNames() []string {
	var names []string
	for _, k := range resourceKinds() {
		names = append(names, k.name)
	}
	return names
}

// optionalCounterWords are those of the port that was typed first.
func (t *tool) optionalCounterWords(typed []string) []candidate {
	name, port, err := splitLink(typed[0])
	if err != nil {
		return nil
	}
	d, err := t.RDMA.DeviceByName(name)
	if err != nil {
		return nil
	}
	list, _ := t.RDMA.CounterStatus(d.Index, port)
	var all []candidate
	for _, s := range list {
		if s.Optional {
			all = append(all, candidate{s.Name, "optional counter"})
		}
	}
	return all
}

// filterWords are the filters of the command, or of the kind that was typed
// first, without those that were given.
func filterWords(path []command, typed []string) []candidate {
	keys := path[len(path)-1].filters
	if keys == nil {
		keys = kindOf(typed).keys
	}
	var all []candidate
	for _, key := range keys {
		if !slices.Contains(typed, key.name) {
			all = append(all, candidate{key.name, "filter"})
		}
	}
	return all
}

// kindOf is the kind that the first word means.
func kindOf(typed []string) resourceKind {
	kinds := resourceKinds()
	i := slices.IndexFunc(kinds, func(k resourceKind) bool { return len(typed) > 0 && strings.HasPrefix(k.name, typed[0]) })
	if i < 0 {
		return resourceKind{}
	}
	return kinds[i]
}

// kindWord is link or dev, whichever objects of the kind are picked by.
func kindWord(typed []string, word string) []candidate {
	if slices.ContainsFunc(kindOf(typed).keys, func(k filterKey) bool { return k.name == word }) {
		return []candidate{{word, "filter"}}
	}
	return nil
}

// filterValues are the words that a filter may have, where there are few.
func (t *tool) filterValues(typed []string) []candidate {
	switch typed[len(typed)-1] {
	case "dev":
		return t.deviceWords()
	case "link":
		return append(t.deviceWords(), t.linkWords()...)
	case "state":
		if kindOf(typed).name == "cm_id" {
			return valueWords[netlinkrdma.CMState]()
		}
		return valueWords[verbs.QPState]()
	case "type":
		if kindOf(typed).name == "srq" {
			return valueWords[netlinkrdma.SRQType]()
		}
		return append(valueWords[verbs.QPType](), candidate{word: verbs.QPTypeDriver.String()})
	case "qp-type":
		return valueWords[verbs.QPType]()
	case "path-mig-state":
		return valueWords[verbs.PathMigState]()
	case "poll-ctx":
		return valueWords[netlinkrdma.PollContext]()
	}
	return nil
}

// valueWords are the words of the first values that have one.
func valueWords[T interface {
	~uint8
	fmt.Stringer
}]() []candidate {
	var all []candidate
	for v := range T(16) {
		if word := v.String(); !strings.Contains(word, "(") {
			all = append(all, candidate{word: word})
		}
	}
	return all
}
