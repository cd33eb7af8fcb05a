package questions

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTable checks that the committed table reads as it was written, and that each difference between
// Linux 6.12 and a device in software has a reason.
func TestTable(t *testing.T) {
	recorded, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	if text := recorded.Text(); !bytes.Equal(text, table) {
		t.Error("table.tsv is not as go run ./test/questions/record </dev/null writes it")
	}
	used := make(map[int]bool)
	for _, kind := range []string{"rxe", "siw"} {
		linux, model := recorded[kind+"-6.12"], recorded[kind+"-model"]
		equal, known := 0, 0
		for _, question := range slices.Sorted(maps.Keys(linux)) {
			answer, ok := model[question]
			if answer == linux[question] && ok {
				equal++
				continue
			}
			i := slices.IndexFunc(differences, func(d difference) bool { return d.questions.MatchString(kind + " " + question) })
			if i < 0 {
				t.Errorf("%s %s\n\tLinux %s\n\tmodel %s\n\tno reason", kind, question, linux[question], orNone(answer, ok))
				continue
			}
			known++
			used[i] = true
		}
		t.Logf("%s: %d questions, %d equal, %d differ with a reason", kind, len(linux), equal, known)
	}
	for i, d := range differences {
		if !used[i] {
			t.Errorf("no answer differs for %q (%s)", d.questions, d.why)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, output := range []string{"a: b\n", "a: b\tc\na: b\td\n"} {
		if answers, err := Parse(output); err == nil {
			t.Errorf("%q: %v", output, answers)
		}
	}
	for _, text := range []string{"q\trxe\n", "q\trxf\ta\n", "q\trxe\ta\nq\trxe-6.1\tb\n"} {
		if table, err := parseTable([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, table)
		}
	}
}

func TestShortNames(t *testing.T) {
	for want, machines := range map[string][]string{
		"all": Machines, "rxe": {"rxe-6.1", "rxe-6.12", "rxe-7.3", "rxe-model"}, "mlx5-model siw-linux": {"siw-6.1", "siw-6.12", "mlx5-model"}, "siw-6.1": {"siw-6.1"},
	} {
		if got := short(machines); got != want {
			t.Errorf("%v: %q, want %q", machines, got, want)
		}
	}
}

// TestCheckAsksAgain checks that an answer that came too late the first time is no fault.
func TestCheckAsksAgain(t *testing.T) {
	recorded, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	Check(t, "rxe-model", func(patience time.Duration, groups ...string) (string, error) {
		var b strings.Builder
		for question, answer := range recorded["rxe-model"] {
			group, _, _ := strings.Cut(question, ": ")
			if asked == 0 && group == "end" {
				answer = "none"
			}
			if asked == 0 || slices.Contains(groups, group) {
				fmt.Fprintf(&b, "%s\t%s\n", question, answer)
			}
		}
		if asked++; asked == 2 && !slices.Equal(groups, []string{"end"}) {
			t.Errorf("asks again about %q", groups)
		}
		return b.String(), nil
	})
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
