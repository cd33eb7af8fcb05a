package qpstates

import (
	"strings"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

type jsonState struct {
	State    string `json:"state"`
	Receives string `json:"receives"`
	Sends    string `json:"sends"`
	Packets  string `json:"packets"`
	About    string `json:"about"`
}

type jsonTransition struct {
	Type     string   `json:"type"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Required []string `json:"required"`
	Optional []string `json:"optional"`
}

type jsonPicture struct {
	States      []jsonState      `json:"states"`
	Transitions []jsonTransition `json:"transitions"`
	Here        []qp             `json:"qps,omitzero"` // left out where the kernel does not tell
}

func (p *picture) json() jsonPicture {
	var j jsonPicture
	for _, m := range machineOf(p.types).meanings() {
		j.States = append(j.States, jsonState{m.state.String(), m.recv, m.send, m.net, m.about})
	}
	for _, typ := range p.types {
		for _, t := range qpstate.Of(typ) {
			j.Transitions = append(j.Transitions, jsonTransition{typ.String(), t.From.String(), t.To.String(), names(t.Required), names(t.Optional)})
		}
	}
	if p.asked {
		j.Here = append([]qp{}, p.qps...) // never null
	}
	return j
}

func names(m verbs.QPAttrMask) []string {
	if m == 0 {
		return []string{}
	}
	return strings.Split(m.String(), "|")
}
