// Package driver is what a provider implements, and what it is given. A provider is
// the user-space half of one kernel driver's queues; package uverbs has what is the
// same for all of them. Work requests, completions and attributes are types of package
// verbs.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/goverbs/goverbs/internal/driver"
//		_ "github.com/goverbs/goverbs/provider/siw"
//		"github.com/goverbs/goverbs/verbs"
//	)
//
//	func main() {
//		fmt.Println(driver.Lookup(verbs.DriverSIW).ABI())
//	}
package driver
