// Package flow describes which packets a flow rule takes, and what becomes of them. A rule is
// made with the CreateFlow method of a queue pair of package uverbs.
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
//
// No card has run it yet; it may change in any release.
package flow
