package perftest

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Report is an end's result of a bandwidth test. Two ends that both measure
// (-b) print the sum; a server that only provided memory prints the client's,
// and nobody reads its own.
//
// C: struct bw_report_data
type Report struct {
	Size       uint64  // bytes of a message
	Iterations uint64  // messages of all QPs
	Peak       float64 // of bandwidth, in Average's unit; 0 if not looked for
	Average    float64 // MiB a second; with --report_gbits, which is not exchanged, 10⁹ bit a second
	Rate       float64 // million messages a second
}

// reportFields is the number of 8-byte messages of a report. Each is answered
// before the next.
const reportFields = 5

func (r Report) words() [reportFields]uint64 {
	return [...]uint64{r.Size, r.Iterations, math.Float64bits(r.Peak), math.Float64bits(r.Average), math.Float64bits(r.Rate)}
}

func reportOf(w [reportFields]uint64) Report {
	return Report{
		Size: w[0], Iterations: w[1],
		Peak: math.Float64frombits(w[2]), Average: math.Float64frombits(w[3]), Rate: math.Float64frombits(w[4]),
	}
}

func appendWord(b []byte, w uint64) []byte { return binary.BigEndian.AppendUint64(b, w) }

func parseWord(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("got %.60q, want 8 bytes", b)
	}
	return binary.BigEndian.Uint64(b), nil
}
