//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goverbs/goverbs/test/bench/result"
)

// bench holds the options of a suite and the writer for its samples.
type bench struct {
	ctx         context.Context
	runs        int    // number of runs of each entrant
	check       bool   // only figures that do not depend on the machine; runs is 1 then
	icount      bool   // whether the environment's clock counts instructions
	environment string // name for samples
	bin         string // directory of rdmalink
	suite       string // the running suite

	only  *regexp.Regexp // rows to run; nil: all
	out   *json.Encoder
	log   io.Writer
	links map[string]*link // by driver, for all suites of a boot
}

// program returns the path of rdmalink or of a measuring program. ring and scale are written
// in Go, c-NAME is built from test/bench/c/NAME.c, and cgo from test/bench/cgo.
func (b *bench) program(name string) string {
	if name == "rdmalink" {
		return filepath.Join(b.bin, name)
	}
	return filepath.Join(b.bin, "bench", name)
}

// twoProcs makes Go programs run as on a machine with two CPUs. The environment that counts instructions has
// only one CPU, and Go's runtime would adapt to that.
func (b *bench) twoProcs() error {
	if !b.icount {
		return nil
	}
	return os.Setenv("GOMAXPROCS", "2")
}

// progress logs the current step.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.log, "bench: %s: %s\n", b.suite, fmt.Sprintf(format, args...))
}

// emit prints a sample, with the suite and the environment filled in.
func (b *bench) emit(s result.Sample) error {
	s.Suite, s.Environment = b.suite, b.environment
	if b.icount && s.Unit == "ns" {
		s.Unit = "instructions"
	}
	return b.out.Encode(s)
}
