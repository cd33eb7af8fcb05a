// Package flow describes flow rules: the packets that a rule matches, and the actions on them.
// The CreateFlow method of a queue pair in package uverbs creates a rule.
//
// Experimental: may change in any release; see docs/stability.md. No card has run it yet.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/goverbs/goverbs/uverbs"
//		"github.com/goverbs/goverbs/verbs/flow"
//	)
//
//	func main() {
//		web := uverbs.FlowOptions{Specs: []flow.Spec{
//			&flow.Eth{},
//			&flow.IPv4{},
//			&flow.TCP{Val: flow.Ports{Dst: 80}, Mask: flow.Ports{Dst: 0xffff}},
//		}}
//		fmt.Println(len(web.Specs), "specs for qp.CreateFlow(&web)")
//	}
package flow
