package perf

import (
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// Reporter is notified of the progress of a run.
type Reporter interface {
	// Start comes when both ends are ready.
	Start(*Setting) error
	// Size comes before a size is measured; the messages that this end will
	// count are 0 when the time decides.
	Size(bytes int, messages int64, done *Progress)
	Latency(*Latency) error
	Bandwidth(*Bandwidth) error
}

// Setting is the effective configuration of a run and its two ends.
type Setting struct {
	Options       // completed
	Device        string
	Driver        verbs.DriverID
	Link          verbs.LinkLayer
	Local, Remote []perftest.Endpoint // a QP each
	Version       string              // of the peer's perftest
}
