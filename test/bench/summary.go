//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// namedCalls is the measure that tells system calls one by one.
const namedCalls = "system_calls_named"

// Named lists which system calls there are: the row "send lat 2 B: write" says
// how many writes a message takes.
func (p page) Named() string {
	type exchange struct{ params, driver string }
	var order []exchange
	calls := make(map[exchange]map[string][]string)
	for _, r := range p.Rows {
		if r.Measure != namedCalls {
			continue
		}
		at := strings.LastIndex(r.Params, ": ")
		e := exchange{r.Params[:at], r.Driver}
		if calls[e] == nil {
			order = append(order, e)
			calls[e] = make(map[string][]string)
		}
		for _, impl := range slices.Sorted(maps.Keys(r.Values)) {
			v, _ := r.value(impl)
			calls[e][impl] = append(calls[e][impl], fmt.Sprintf("%s %s", r.Params[at+2:], figure(v.median)))
		}
	}
	var b strings.Builder
	b.WriteString("| exchange | driver | goverbs | C |\n|---|---|---|---|\n")
	for _, e := range order {
		var c []string
		for impl, list := range calls[e] {
			if impl != ours {
				c = list
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.params, e.driver, strings.Join(calls[e][ours], ", "), strings.Join(c, ", "))
	}
	return b.String()
}

// Allocations sums up the rows that count them.
func (p page) Allocations() string {
	rows, some := 0, []string{}
	for _, r := range p.Rows {
		v, ok := r.value(ours)
		if !ok || !strings.HasSuffix(r.Measure, "_allocs") {
			continue
		}
		rows++
		if v.max > 0 {
			some = append(some, fmt.Sprintf("%s on %s: %s", r.name(), r.Driver, figure(v.max)))
		}
	}
	if len(some) > 0 {
		return strings.Join(some, "; ")
	}
	return fmt.Sprintf("0 on each of %d paths (each driver, each length of list, each vehicle)", rows)
}

// tally is how many rows a bar holds for, and how many reach it.
type tally struct{ rows, yes, within int }

// Bars is the table of goals, with how many rows reach each.
func (p page) Bars() string {
	counts := make(map[*bar]map[string]*tally)
	p.judge(func(r *row, b *bar, other, answer string) {
		if counts[b] == nil {
			counts[b] = make(map[string]*tally)
		}
		if counts[b][other] == nil {
			counts[b][other] = new(tally)
		}
		counts[b][other].add(answer)
	})
	var text strings.Builder
	text.WriteString("| measure | against | goal | rows | reached | within the spread | not |\n|---|---|---|--:|--:|--:|--:|\n")
	for i := range bars {
		b := &bars[i]
		for _, other := range slices.Sorted(maps.Keys(counts[b])) {
			t := counts[b][other]
			fmt.Fprintf(&text, "| %s | %s | %s | %d | %d | %d | %d |\n", b.name(), other, b, t.rows, t.yes, t.within, t.rows-t.yes-t.within)
		}
	}
	return text.String()
}

func (t *tally) add(answer string) {
	t.rows++
	switch answer {
	case "yes":
		t.yes++
	case "within the spread":
		t.within++
	}
}

func (b bar) name() string {
	name := strings.ReplaceAll(strings.Join(b.measures, ", "), "_", " ")
	if b.params != "" {
		name += ": " + b.params
	}
	return name
}

// Missed lists the rows that do not reach their bar.
func (p page) Missed() string {
	var text strings.Builder
	p.judge(func(r *row, b *bar, other, answer string) {
		if answer != "no" {
			return
		}
		s, _ := r.ratio(other)
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", r.name(), r.Driver, r.Vehicle, other, s, b)
	})
	if text.Len() == 0 {
		return "None.\n"
	}
	return "| measure | driver | vehicle | against | ratio | goal |\n|---|---|---|---|---|---|\n" + text.String()
}

// judge holds each row to its bars.
func (p page) judge(tell func(r *row, b *bar, other, answer string)) {
	for _, r := range p.Rows {
		for _, other := range slices.Sorted(maps.Keys(r.Values)) {
			b := barOf(r.key, other)
			if s, ok := r.ratio(other); ok && b != nil {
				tell(r, b, other, b.reached(s))
			}
		}
	}
}
