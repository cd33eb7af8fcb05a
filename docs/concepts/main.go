// Concepts runs the programs of the pages in this folder, on RDMA devices in software, which
// it contains:
//
//	go run ./docs/concepts            # the pages
//	go run ./docs/concepts keys       # the program of keys.md, which is keys.go
//
// With -rxe DEVICE and -siw DEVICE@ADDRESS it runs them on devices of the kernel. Both ends
// of each connection are then on that device.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/rdmatest"
)

// programs holds the programs of the pages, by name of the page.
var programs = map[string]func(*lab){
	"completions": completions,
	"connections": connections,
	"events":      events,
	"keys":        keys,
	"lossless":    lossless,
	"memory":      memory,
	"networks":    networks,
	"operations":  operations,
	"order":       order,
	"packets":     packets,
	"queues":      queues,
	"read":        read,
	"receives":    receives,
	"start":       start,
	"states":      states,
	"subnet":      subnet,
	"tutorial":    tutorial,
}

func main() {
	rxe := flag.String("rxe", "", "run on this soft RoCE device of the kernel")
	siw := flag.String("siw", "", "run on this soft iWARP device of the kernel: DEVICE@ADDRESS")
	flag.Parse()
	places := make(map[rdmatest.Kind]place)
	for kind, text := range map[rdmatest.Kind]string{rdmatest.RXE: *rxe, rdmatest.SIW: *siw} {
		if text != "" {
			device, addr, _ := strings.Cut(text, "@")
			places[kind] = place{device, addr}
		}
	}
	if err := run(os.Stdout, flag.Arg(0), places); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the program of a page.
func run(out io.Writer, page string, places map[rdmatest.Kind]place) (err error) {
	program, ok := programs[page]
	if !ok {
		return fmt.Errorf("name a page: %s", strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
	}
	l := newLab(out, places)
	defer l.end(&err)
	program(l)
	return nil
}
