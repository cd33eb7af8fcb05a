package qpstates

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// chain lists the states that are drawn in a row. SQE is below RTS. ERR, which
// every state can reach, is apart.
var chain = []verbs.QPState{verbs.QPStateReset, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS, verbs.QPStateSQD}

// machine is the set of the transitions that some QP types have.
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

// arrow returns the arrow between two adjacent states.
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

// draw returns a drawing of the machine in text.
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

// The boxes of the drawing, in pixels.
const (
	boxWidth, boxHeight = 190, 54
	lineHeight          = 15
)

// place is the middle of a state's box.
var place = map[verbs.QPState][2]int{
	verbs.QPStateReset: {330, 60},
	verbs.QPStateInit:  {330, 190},
	verbs.QPStateRTR:   {330, 320},
	verbs.QPStateRTS:   {330, 450},
	verbs.QPStateSQD:   {760, 450},
	verbs.QPStateSQE:   {330, 580},
	verbs.QPStateErr:   {760, 580},
}

// svg returns the drawing: a box for each state with its effect on receives and sends
// and its number of QPs, an arrow for each transition with its required attributes.
func (p *picture) svg() string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 660" font-family="sans-serif" font-size="12">
<title>States of a queue pair</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
<rect width="960" height="660" fill="#fff"/>
`)
	m := machineOf(p.types)
	for _, from := range meanings {
		for _, to := range meanings {
			if from.state != to.state && m.has(from.state, to.state) {
				p.arrow(&b, from.state, to.state, p.needs(from.state, to.state))
			}
		}
	}
	if m.has(verbs.QPStateSQE, verbs.QPStateRTS) {
		p.arrow(&b, verbs.QPStateRTS, verbs.QPStateSQE, []string{"a send fails"})
	}
	for _, one := range m.meanings() {
		p.box(&b, one)
	}
	text(&b, 760, 580+boxHeight/2+20, "middle", "from every state but RESET")
	text(&b, 330, 25, "middle", "a new QP; from every state")
	b.WriteString("</svg>\n")
	return b.String()
}

// needs returns the required attributes, with a line for each type.
func (p *picture) needs(from, to verbs.QPState) (lines []string) {
	for _, typ := range p.types {
		for _, t := range qpstate.Of(typ) {
			if t.From == from && t.To == to && t.Required != 0 {
				lines = append(lines, fmt.Sprintf("%v: %s", typ, strings.Join(names(t.Required), ", ")))
			}
		}
	}
	return lines
}

func (p *picture) box(b *strings.Builder, m meaning) {
	x, y := place[m.state][0], place[m.state][1]
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#eef3fa" stroke="#345"/>`+"\n", x-boxWidth/2, y-boxHeight/2, boxWidth, boxHeight)
	title := m.state.String()
	n := 0
	for _, q := range p.qps {
		if q.state == m.state {
			n++
		}
	}
	switch n {
	case 0:
	case 1:
		title += ": 1 QP here"
	default:
		title += fmt.Sprintf(": %d QPs here", n)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-weight="bold" font-size="14">%s</text>`+"\n", x, y-8, title)
	text(b, x, y+8, "middle", fmt.Sprintf("receives %s, sends %s", m.recv, m.send))
	text(b, x, y+8+lineHeight, "middle", "packets "+m.net)
}

// arrow draws an arrow from the edge of one box to that of another, and its label to the right
// of it. It leaves room for the arrow in the other direction.
func (p *picture) arrow(b *strings.Builder, from, to verbs.QPState, label []string) {
	x1, y1, x2, y2 := place[from][0], place[from][1], place[to][0], place[to][1]
	const beside = 10
	switch {
	case x1 == x2 && y2 > y1:
		x1, x2, y1, y2 = x1+beside, x2+beside, y1+boxHeight/2, y2-boxHeight/2
	case x1 == x2:
		x1, x2, y1, y2 = x1-beside, x2-beside, y1-boxHeight/2, y2+boxHeight/2
	case x2 > x1:
		x1, x2, y1, y2 = x1+boxWidth/2, x2-boxWidth/2, y1-beside, y2-beside
	default:
		x1, x2, y1, y2 = x1-boxWidth/2, x2+boxWidth/2, y1+beside, y2+beside
	}
	fmt.Fprintf(b, `<path d="M%d %dL%d %d" stroke="#000" fill="none" marker-end="url(#tip)"/>`+"\n", x1, y1, x2, y2)
	top := (y1+y2)/2 - (len(label)-1)*lineHeight/2
	for i, line := range label {
		text(b, max(x1, x2)+12, top+i*lineHeight, "start", line)
	}
}

func text(b *strings.Builder, x, y int, anchor, line string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", x, y, anchor, line)
}
