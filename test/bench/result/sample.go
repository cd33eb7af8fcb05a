// Package result is the format in which the benchmark's programs report: samples,
// one JSON object a line.
package result

import (
	"encoding/json"
	"io"
)

// A Sample is one figure of one run of one program. Samples that differ only in
// Impl, Run and Value stand side by side in the table.
type Sample struct {
	Suite   string  `json:"suite"`            // group of rows: ring, calls, perf, scale, cli
	Measure string  `json:"measure"`          // such as post_recv
	Driver  string  `json:"driver,omitempty"` // siw or rxe
	Params  string  `json:"params,omitempty"` // the rest of the row's name, such as "list 16"
	Impl    string  `json:"impl"`             // goverbs, rdma-core, perftest, cgo, iproute2
	Unit    string  `json:"unit"`             // ns, instructions, MiB/s, …
	Value   float64 `json:"value"`
	Vehicle string  `json:"vehicle,omitempty"` // where it ran, set by who started it: qemu 6.12, uml 6.12, …
	Run     int     `json:"run,omitempty"`     // which of the interleaved runs, from 1
}

// Missing begins the lines, on standard error, that name measurements without
// samples, and the reason.
const Missing = "bench: no figures: "

// Write writes s as a line.
func Write(w io.Writer, s Sample) error { return json.NewEncoder(w).Encode(s) }
