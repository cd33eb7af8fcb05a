// Package result defines the output of the benchmark's programs, which are samples, one JSON object per
// line.
package result

import (
	"encoding/json"
	"io"
)

// A Sample is a figure of one run of one program. Samples that differ only in Impl, Run and Value belong
// to one row of the table.
type Sample struct {
	Suite       string  `json:"suite"`            // group of rows: ring, calls, perf, scale, devices
	Measure     string  `json:"measure"`          // such as post_recv
	Driver      string  `json:"driver,omitempty"` // siw or rxe
	Params      string  `json:"params,omitempty"` // the rest of the row's name, such as "list 16"
	Impl        string  `json:"impl"`             // goverbs, rdma-core, perftest, cgo, iproute2, or before, an earlier goverbs
	Unit        string  `json:"unit"`             // ns, instructions, MiB/s, …
	Value       float64 `json:"value"`
	Environment string  `json:"environment,omitempty"` // where it ran, such as qemu 6.12 or uml 6.12; set by the guest
	Run         int     `json:"run,omitempty"`         // number of the interleaved run, from 1
}

// Missing is the prefix of the lines on standard error that name measurements without samples, and the
// reason.
const Missing = "bench: no figures: "

// Write writes s as a line of JSON.
func Write(w io.Writer, s Sample) error { return json.NewEncoder(w).Encode(s) }
