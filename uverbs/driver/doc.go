// Package driver is what a provider implements, and what it is given. A provider is
// the user-space half of one kernel driver's queues; package uverbs has what is the
// same for all of them. Programs use package uverbs, under whose names most types of
// this package are known too.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		_ "github.com/goverbs/goverbs/provider/siw"
//		"github.com/goverbs/goverbs/uverbs/driver"
//	)
//
//	func main() {
//		fmt.Println(driver.Lookup(driver.SIW).ABI())
//	}
package driver
