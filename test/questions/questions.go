// Package questions compares devices of Linux and devices in software, line by line. A C program
// asks a device some 2,000 questions; table.tsv has the answer of each machine. The kernel tests ask it
// with each kernel below, and the tests of rdmalink sandbox with each kind of device in software.
package questions

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Machines are the devices that are asked: on each Linux, and in software.
var Machines = []string{"rxe-6.1", "rxe-6.12", "rxe-7.3", "rxe-model", "siw-6.1", "siw-6.12", "siw-model", "erdma-model", "mlx5-model"}

//go:embed table.tsv
var table []byte

// Answers are the answers of one machine to questions.
type Answers map[string]string

// Parse reads the output of the program.
func Parse(output string) (Answers, error) {
	answers := make(Answers)
	for line := range strings.Lines(output) {
		question, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch _, twice := answers[question]; {
		case !ok:
			return nil, fmt.Errorf("no answer in line %q", line)
		case twice:
			return nil, fmt.Errorf("question %q is asked twice", question)
		}
		answers[question] = answer
	}
	return answers, nil
}

// Table has the answers of all machines.
type Table map[string]Answers

// Recorded returns the committed table.
func Recorded() (Table, error) { return parseTable(table) }

func parseTable(text []byte) (Table, error) {
	t := make(Table)
	for line := range bytes.Lines(text) {
		words := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		if len(words) != 3 {
			return nil, fmt.Errorf("table.tsv: %d columns in %q, want 3", len(words), line)
		}
		for _, name := range strings.Fields(words[1]) {
			machines := meant(name)
			if len(machines) == 0 {
				return nil, fmt.Errorf("table.tsv: no machine %q", name)
			}
			for _, m := range machines {
				if t[m] == nil {
					t[m] = make(Answers)
				}
				if _, twice := t[m][words[0]]; twice {
					return nil, fmt.Errorf("table.tsv: %s answers %q twice", m, words[0])
				}
				t[m][words[0]] = words[2]
			}
		}
	}
	return t, nil
}

// Text returns the table as it is committed: question, machines and answer, one line for each answer.
func (t Table) Text() []byte {
	givers := make(map[[2]string][]string)
	for _, m := range Machines {
		for question, answer := range t[m] {
			key := [2]string{question, answer}
			givers[key] = append(givers[key], m)
		}
	}
	var lines []string
	for key, machines := range givers {
		lines = append(lines, key[0]+"\t"+short(machines)+"\t"+key[1]+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// groups are names of several machines. A larger group comes first.
var groups = []struct {
	name   string
	prefix string
	linux  bool // without models
}{{"all", "", false}, {"linux", "", true}, {"rxe", "rxe-", false}, {"rxe-linux", "rxe-", true}, {"siw", "siw-", false}, {"siw-linux", "siw-", true}}

// meant returns the machines that a name stands for.
func meant(name string) []string {
	for _, g := range groups {
		if g.name == name {
			return slices.DeleteFunc(slices.Clone(Machines), func(m string) bool {
				return !strings.HasPrefix(m, g.prefix) || g.linux && strings.HasSuffix(m, "-model")
			})
		}
	}
	if slices.Contains(Machines, name) {
		return []string{name}
	}
	return nil
}

// short names machines with as few words as possible.
func short(machines []string) string {
	var names []string
	left := slices.Clone(machines)
	for _, g := range groups {
		members := meant(g.name)
		if slices.ContainsFunc(members, func(m string) bool { return !slices.Contains(left, m) }) {
			continue
		}
		names = append(names, g.name)
		left = slices.DeleteFunc(left, func(m string) bool { return slices.Contains(members, m) })
	}
	names = append(names, left...)
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Ask runs the program for some groups of questions, or all. It waits so long for what may not come.
type Ask func(patience time.Duration, groups ...string) (output string, err error)

// patience is how long a question waits for what may not come: the first time, and when what differs is asked again.
var patience = []time.Duration{30 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}

// Check compares the answers of a machine with the table. What differs is asked again with more
// patience: on a busy machine the first answer may be that nothing came.
func Check(t *testing.T, machine string, ask Ask) {
	t.Helper()
	recorded, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	want := recorded[machine]
	get := func(patience time.Duration, groups ...string) Answers {
		output, err := ask(patience, groups...)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		got, err := Parse(output)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := get(patience[0])
	for _, p := range patience[1:] {
		wrong := wrongGroups(got, want)
		if len(wrong) == 0 {
			break
		}
		t.Logf("asking again: %s", strings.Join(wrong, ", "))
		for question, answer := range get(p, wrong...) {
			if old, ok := got[question]; !ok || old != want[question] {
				got[question] = answer
			}
		}
	}
	for _, question := range slices.Sorted(maps.Keys(want)) {
		if answer, ok := got[question]; answer != want[question] {
			t.Errorf("%s\n\tgot  %s\n\twant %s", question, orNone(answer, ok), want[question])
		}
	}
	for _, question := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[question]; !ok {
			t.Errorf("%s\n\tgot  %s\n\tis not in the table: run make questions", question, got[question])
		}
	}
}

func orNone(answer string, ok bool) string {
	if !ok {
		return "(not asked)"
	}
	return answer
}

// wrongGroups returns the groups of questions with another answer than the table's.
func wrongGroups(got, want Answers) []string {
	wrong := make(map[string]bool)
	for question, answer := range want {
		if got[question] != answer {
			group, _, _ := strings.Cut(question, ": ")
			wrong[group] = true
		}
	}
	return slices.Sorted(maps.Keys(wrong))
}
