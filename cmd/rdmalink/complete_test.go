package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// completeMachine has two devices with ports, and an optional counter.
func completeMachine() *cli.Tool {
	tool, kernel := clitest.Resources()
	kernel.Statistics = map[nltest.PortID]nltest.Statistics{{Device: 7, Port: 1}: {Status: []netlinkrdma.CounterStatus{
		{Name: "rcvd_pkts", Enabled: true}, {Name: "cc_rx_ce_pkts", Index: 1, Optional: true},
	}}}
	tool.Net = &hosttest.Netdevs{All: []addlink.Netdev{{Name: "lo"}, {Name: "eth0"}}}
	return tool
}

// asTool makes the test binary rdmalink on that machine.
const asTool = "GOVERBS_TEST_RDMALINK"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		t := completeMachine()
		t.Stdout, t.Stderr = os.Stdout, os.Stderr
		os.Exit(t.Run(context.Background(), root(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// completions maps lines, whose last word may be empty, to the completions of that
// word.
var completions = map[string]string{
	"-h":                             "-h",
	"re":                             "resource",
	"resource s":                     "show set",
	"res show ":                      "siw0 mlx5_0 qp cm_id cq mr pd ctx srq frmr_pools",
	"res show m":                     "mlx5_0 mr",
	"res show qp ":                   "link lqpn rqpn pid sq-psn rq-psn type path-mig-state state pdn",
	"res show qp link ":              "siw0 mlx5_0 siw0/1 mlx5_0/1 mlx5_0/2",
	"res show qp link mlx5_0/1 st":   "state",
	"res show qp link mlx5_0 state ": "RESET INIT RTR RTS SQD SQE ERR",
	"res show qp lqpn 1 p":           "pid path-mig-state pdn",
	"res show qp pid 1 p":            "path-mig-state pdn",
	"res show cm_id state DE":        "DEVICE_REMOVAL DESTROYING",
	"res show srq type ":             "BASIC XRC TM",
	"res show qp type X":             "XRC_INI XRC_TGT",
	"res show cq poll-ctx S":         "SOFTIRQ",
	"res show cq dev ":               "siw0 mlx5_0",
	"res show qp --j":                "--json",
	"res help s":                     "show set",
	"help res ":                      "show set help",
	"help perf send ":                "lat bw",
	"res set fr":                     "frmr_pools",
	"res set frmr_pools ":            "dev",
	"res set frmr_pools dev ":        "siw0 mlx5_0",
	"res set frmr_pools dev mlx5_0 ": "aging pinned",
	"-j -b FILE res set frmr_pools dev mlx5_0 a": "aging",
	"add ":                                   "",
	"add rxe0 ":                              "type",
	"add rxe0 type ":                         "siw rxe",
	"link add rxe0 t rxe ":                   "netdev",
	"add rxe0 type rxe netdev ":              "lo eth0",
	"del ":                                   "siw0 mlx5_0",
	"dev add n t ":                           "SMI",
	"dev set mlx5_0 ":                        "name netns adaptive-moderation",
	"dev set mlx5_0 adaptive-moderation ":    "on off",
	"dev set mlx5_0 adaptive-moderation on ": "",
	"statistic qp set link mlx5_0/1 auto type":          "type type,pid",
	"statistic qp set link mlx5_0/1 auto type,pid on ":  "optional-counters",
	"statistic set link mlx5_0/1 optional-counters ":    "cc_rx_ce_pkts",
	"statistic qp show link mlx5_0 q":                   "qp-type",
	"statistic qp show link mlx5_0 qp-type RC cntn 1 l": "lqpn",
	"perf send lat --ib-d":                              "--ib-dev",
	"perf send lat -d ":                                 "siw0 mlx5_0",
	"rping --p":                                         "--port --persistent --poll",
	"nosuch ":                                           "",
	"completion ":                                       "bash zsh fish words help",
	"trace --o":                                         "--output",
	"dump --w":                                          "--write",
	"qp ":                                               "states help",
	"qp states ":                                        "rc uc ud srd xrc_ini xrc_tgt dci dct",
	"qp states --s":                                     "--svg",
}

func TestComplete(t *testing.T) {
	tool := completeMachine()
	for line, want := range completions {
		var got []string
		for _, c := range tool.Complete(root(), strings.Split(line, " ")) {
			got = append(got, c.Word)
		}
		if diff := cmp.Diff(strings.Fields(want), got, sameList); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
	for _, c := range root().Sub {
		if !slices.ContainsFunc(tool.Complete(root(), nil), func(one cli.Candidate) bool { return one == cli.Candidate{Word: c.Name(), About: c.Summary} }) {
			t.Errorf("%s is not completed", c.Name())
		}
	}
}

var sameList = cmp.Comparer(func(a, b []string) bool { return slices.Equal(a, b) })

// TestUsageBrackets checks that the brackets of usage lines come in pairs, and that
// completion proposes a word for each.
func TestUsageBrackets(t *testing.T) {
	for path := range cli.AllCommands(root()) {
		args := path[len(path)-1].Args
		for _, pair := range []string{"[]", "{}"} {
			if strings.Count(args, pair[:1]) != strings.Count(args, pair[1:]) {
				t.Errorf("%s: %s", cli.CommandLine(path), args)
			}
		}
		if args != "" && len(cli.WordsAfter(args, nil)) == 0 {
			t.Errorf("%s: nothing can follow by %q", cli.CommandLine(path), args)
		}
	}
}

// shells maps shells to scripts that complete lines, of words separated by tabs,
// and print the completions.
var shells = map[string]string{
	"bash": `source <(rdmalink completion bash)
		while IFS= read -r line; do
			IFS=$'\t' read -r -a COMP_WORDS <<< "rdmalink"$'\t'"$line."
			COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); last=${COMP_WORDS[COMP_CWORD]}; COMP_WORDS[COMP_CWORD]=${last%.}
			_rdmalink rdmalink "${last%.}" ""; echo "${COMPREPLY[*]}"
		done`,
	"zsh": `autoload -U compinit; compinit -u -D; source <(rdmalink completion zsh)
		[[ $_comps[rdmalink] == _rdmalink ]] || exit 1
		_describe() { print -r -- ${${(P)2}%%:*} }
		while IFS= read -r line; do
			words=(rdmalink "${(@ps:\t:)line}"); CURRENT=$#words; _rdmalink
		done`,
	"fish": `rdmalink completion fish | source
		while read -l line
			echo (complete -C (string replace -a \t ' ' "rdmalink	$line") | string replace -r '\t.*' '')
		end`,
}

// TestShells runs the completion scripts in the shells that are installed.
func TestShells(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\n" + asTool + "=1 exec " + self + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "rdmalink"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for shell, program := range shells {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal("in CI, and missing: ", shell)
				}
				t.Skip("missing: ", shell)
			}
			lines := []string{"-h", "re", "res show m", "res show qp link mlx5_0/1 st", "res set frmr_pools dev ", "add rxe0 type ", "perf send lat --ib-d", "res show qp link "}
			cmd := exec.Command(shell, "-c", program)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "LC_ALL=C") // bash warns of a locale that is not installed
			cmd.Stdin = strings.NewReader(strings.ReplaceAll(strings.Join(lines, "\n"), " ", "\t") + "\n")
			out, err := cmd.CombinedOutput()
			got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if err != nil || len(got) != len(lines) {
				t.Fatalf("%v\n%s", err, out)
			}
			for i, line := range lines {
				words := strings.Fields(got[i])
				want := strings.Fields(completions[line])
				slices.Sort(words) // fish sorts them
				slices.Sort(want)
				if len(want) == 0 || !slices.Equal(words, want) {
					t.Errorf("%q: %q, want %q", line, words, want)
				}
			}
		})
	}
}
