package qpstates

import (
	"strings"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// chain lists the states that are drawn in a row. SQE is below RTS. ERR, which
// every state can reach, is apart.
var chain = []verbs.QPState{verbs.QPStateReset, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS, verbs.QPStateSQD}

// machine returns the transitions of the types.
type machine map[[2]verbs.QPState]bool

func machineOf(types []verbs.QPType) machine {
	m := make(machine)
	for _, typ := range types {
		for _, t := range qpstate.Of(typ) {
			m[[2]verbs.QPState{t.From, t.To}] = true
		}
	}
	return m
}

func (m machine) has(from, to verbs.QPState) bool { return m[[2]verbs.QPState{from, to}] }

// arrow is the one between two states that stand side by side.
func (m machine) arrow(left, right verbs.QPState) string {
	switch there, back := m.has(left, right), m.has(right, left); {
	case there && back:
		return "<-->"
	case there:
		return "--->"
	case back:
		return "<---"
	}
	return "    "
}

// draw draws the machine.
func (m machine) draw() string {
	row, below := "  ", 0
	for i, s := range chain {
		if i > 0 {
			row += " " + m.arrow(chain[i-1], s) + " "
		}
		if s == verbs.QPStateRTS {
			below = len(row)
		}
		row += "[" + s.String() + "]"
	}
	lines := []string{row}
	if m.has(verbs.QPStateSQE, verbs.QPStateRTS) {
		gap := strings.Repeat(" ", below)
		lines = append(lines, gap+" | ^", gap+" | |   down: a send fails", gap+" v |", gap+"[SQE]")
	}
	return strings.Join(append(lines, "", "  any state ---> [RESET]      any state but RESET ---> [ERR]"), "\n") + "\n"
}
