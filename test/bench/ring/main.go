// Command ring measures posting, polling and arming with goverbs. Its
// twins are test/bench/c/ring.c and test/bench/cgo.
package main

import (
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/test/bench/ring/rounds"
)

func main() { rounds.MainLoops("goverbs", open) }
