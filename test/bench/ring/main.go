// Command ring tells what posting, polling and arming cost with goverbs. Its
// twins are test/bench/c/ring.c and test/bench/cgo.
package main

import (
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/test/bench/ring/rounds"
)

func main() { rounds.Main("goverbs", open) }
