package qpstates

import (
	"strings"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
)

// chain are the states that lie in a row. SQE is below RTS, and ERR, to which all
// lead, stands apart.
var chain = []uverbs.QPState{uverbs.QPStateReset, uverbs.QPStateInit, uverbs.QPStateRTR, uverbs.QPStateRTS, uverbs.QPStateSQD}

// machine tells which moves the types have.
type machine map[[2]uverbs.QPState]bool

func machineOf(types []uverbs.QPType) machine {
	m := make(machine)
	for _, typ := range types {
		for _, t := range qpstate.Of(typ) {
			m[[2]uverbs.QPState{t.From, t.To}] = true
		}
	}
	return m
}

func (m machine) has(from, to uverbs.QPState) bool { return m[[2]uverbs.QPState{from, to}] }

// arrow is the one between two states that stand side by side.
func (m machine) arrow(left, right uverbs.QPState) string {
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
		if s == uverbs.QPStateRTS {
			below = len(row)
		}
		row += "[" + s.String() + "]"
	}
	lines := []string{row}
	if m.has(uverbs.QPStateSQE, uverbs.QPStateRTS) {
		gap := strings.Repeat(" ", below)
		lines = append(lines, gap+" | ^", gap+" | |   down: a send fails", gap+" v |", gap+"[SQE]")
	}
	return strings.Join(append(lines, "", "  any state ---> [RESET]      any state but RESET ---> [ERR]"), "\n") + "\n"
}
