package qpstate

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Explain tells what is wrong with a transition that the kernel
// refused, or "" if the table finds nothing wrong with it.
func Explain(typ verbs.QPType, from, to verbs.QPState, mask verbs.QPAttrMask) string {
	table, known := transitions[typ]
	if !known {
		return ""
	}
	r, ok := table[transition{from, to}]
	if !ok && !Anywhere(from, to) {
		return fmt.Sprintf("no %v QP goes from %v to %v%s", typ, from, to, reachable(table, from))
	}
	mask &^= verbs.QPAttrState
	if missing := r.required &^ mask; missing != 0 {
		return fmt.Sprintf("%v to %v of a %v QP also needs %v", from, to, typ, missing)
	}
	if extra := mask &^ (r.required | r.optional); extra != 0 {
		return fmt.Sprintf("%v to %v of a %v QP can't take %v", from, to, typ, extra)
	}
	return ""
}

func reachable(table map[transition]rule, from verbs.QPState) string {
	for to := verbs.QPStateInit; to <= verbs.QPStateSQE; to++ {
		if _, ok := table[transition{from, to}]; ok && to != from {
			return fmt.Sprintf("; from %v the next is %v", from, to)
		}
	}
	return ""
}
