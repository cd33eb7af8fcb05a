//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A record is a line of the file that stress appends to: one run of a row.
type record struct {
	Time    time.Time
	Commit  string
	Row     string
	Hogs    int
	Seconds float64
	Failed  []string `json:",omitempty"` // tests, or the error of a command without a failed test
	Faults  int      `json:",omitempty"` // of the machine
}

// stress runs the rows again and again until the time is over, and appends each result to the
// file. A row that the end of the time interrupts does not count.
func stress(ctx context.Context, o options, stdout io.Writer) (code int, err error) {
	limited, cancel := context.WithTimeout(ctx, o.time)
	defer cancel()
	head, _ := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output() // a tree without git has no commit
	for round := 0; limited.Err() == nil; round++ {
		fmt.Fprintf(stdout, "== round %d, %d busy loops\n", round+1, o.hogs)
		for _, out := range together(limited, o, round, stdout) {
			if out.took == 0 || limited.Err() != nil && !out.ok() && len(out.Failed) == 0 {
				continue
			}
			if !out.ok() {
				code = 1
			}
			if err := appendRecord(o.file, out.record(strings.TrimSpace(string(head)), o.hogs)); err != nil {
				return code, err
			}
		}
	}
	all, err := readRecords(o.file)
	if err != nil {
		return code, err
	}
	frequencies(stdout, o.file, all)
	return code, ctx.Err()
}

func (o *outcome) record(commit string, hogs int) record {
	r := record{Time: time.Now().UTC().Truncate(time.Second), Commit: commit, Row: o.row.name, Hogs: hogs,
		Seconds: o.took.Round(time.Second / 10).Seconds(), Failed: o.Failed, Faults: len(o.faults)}
	if !o.ok() && len(r.Failed) == 0 {
		r.Failed = []string{o.err.Error()}
	}
	return r
}

func appendRecord(name string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// readRecords returns nothing for a file that does not exist yet.
func readRecords(name string) ([]record, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w: delete the file to begin again", name, len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// frequencies prints how often what failed since the file began.
func frequencies(w io.Writer, file string, all []record) {
	runs, failed := make(map[string]int), make(map[string]int)
	faults, seconds := 0, 0.0
	for _, r := range all {
		runs[r.Row]++
		faults += r.Faults
		seconds += r.Seconds
		for _, what := range r.Failed {
			failed[r.Row+" "+what]++
		}
	}
	since := "now"
	if len(all) > 0 {
		since = all[0].Time.Format(time.RFC3339)
	}
	fmt.Fprintf(w, "\n%s: since %s %d runs of rows in %s, %d kinds of failure, %d machine faults\n",
		file, since, len(all), time.Duration(seconds*float64(time.Second)).Round(time.Second), len(failed), faults)
	names := make([]string, 0, len(failed))
	for what := range failed {
		names = append(names, what)
	}
	slices.SortFunc(names, func(a, b string) int {
		if failed[a] != failed[b] {
			return failed[b] - failed[a]
		}
		return strings.Compare(a, b)
	})
	for _, what := range names {
		row, rest, _ := strings.Cut(what, " ")
		fmt.Fprintf(w, "%d of %d  %s  %s\n", failed[what], runs[row], row, rest)
	}
}
