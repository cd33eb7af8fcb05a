package qpstate

import (
	"cmp"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// Transition is one that a program asks for, and the attributes that it must and may
// have beside the state.
type Transition struct {
	From, To           verbs.QPState
	Required, Optional verbs.QPAttrMask
}

// Types are the types of QPs whose state machine is known.
func Types() []verbs.QPType {
	return []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator, verbs.QPTypeXRCTarget}
}

// Of lists the transitions of a type, by state. Those to RESET and to ERR, which take
// no attributes, are not among them (see Anywhere).
func Of(typ verbs.QPType) []Transition {
	var all []Transition
	for t, r := range transitions[typ] {
		all = append(all, Transition{t.from, t.to, r.required, r.optional})
	}
	slices.SortFunc(all, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return all
}

// Anywhere tells whether a QP goes from one state to the other whatever its type is.
func Anywhere(from, to verbs.QPState) bool {
	return to == verbs.QPStateReset || to == verbs.QPStateErr && from != verbs.QPStateReset
}
