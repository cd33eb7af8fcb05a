package perfcmd

import (
	"errors"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
)

// jsonReport is the output with -j. Names end with the unit.
type jsonReport struct {
	Test          string     `json:"test"` // send lat
	Role          string     `json:"role"`
	Device        string     `json:"device,omitempty"`
	Driver        string     `json:"driver,omitempty"`
	PeerVersion   string     `json:"peer_version,omitempty"` // of its perftest, or the one we call ourselves
	Connection    string     `json:"connection,omitempty"`   // RC, UC, UD
	CM            bool       `json:"rdma_cm"`
	Events        bool       `json:"events"`
	Bidirectional bool       `json:"bidirectional,omitempty"`
	QPCount       int        `json:"qps,omitempty"`
	MTU           int        `json:"mtu_bytes,omitempty"`
	TxDepth       int        `json:"tx_depth,omitempty"`
	RxDepth       int        `json:"rx_depth,omitempty"`
	PostList      int        `json:"post_list,omitempty"`
	CQMod         int        `json:"cq_mod,omitempty"`
	Inline        int        `json:"inline_bytes"`
	OutReads      int        `json:"outs,omitempty"`
	Local         []jsonAddr `json:"local,omitempty"`
	Remote        []jsonAddr `json:"remote,omitempty"`
	Results       []any      `json:"results"` // perfJSONLatency or perfJSONBandwidth, a size each
	Error         string     `json:"error,omitempty"`
}

type jsonAddr struct {
	LID uint16 `json:"lid"`
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

type jsonLatency struct {
	Size      int       `json:"size_bytes"`
	Iters     int       `json:"iterations"`
	Min       float64   `json:"t_min_usec,omitempty"`
	Max       float64   `json:"t_max_usec,omitempty"`
	Typical   float64   `json:"t_typical_usec,omitempty"`
	Avg       float64   `json:"t_avg_usec"`
	Stdev     *float64  `json:"t_stdev_usec,omitempty"` // 0 of equal samples is a figure
	P99       float64   `json:"p99_usec,omitempty"`
	P999      float64   `json:"p99_9_usec,omitempty"`
	PerSecond float64   `json:"tps,omitempty"`
	Samples   []float64 `json:"samples_usec,omitempty"`
}

type jsonBandwidth struct {
	Size     int     `json:"size_bytes"`
	Messages int64   `json:"iterations"`
	Peak     float64 `json:"bw_peak_bytes_per_sec,omitempty"`
	Average  float64 `json:"bw_average_bytes_per_sec"`
	Rate     float64 `json:"msg_rate_per_sec"`
}

func (j *jsonReport) start(p *session, s *perf.Setting) {
	j.Device, j.Driver, j.Connection = s.Device, s.Driver.String(), s.Type.String()
	j.PeerVersion = s.Version
	j.CM, j.Events, j.Bidirectional = s.CM, s.Events, s.Bidirectional
	j.QPCount, j.MTU, j.TxDepth, j.RxDepth = s.QPCount, s.MTU.Bytes(), s.TxDepth, s.RxDepth
	j.PostList, j.CQMod, j.Inline, j.OutReads = s.PostList, s.CQMod, s.Inline, s.OutReads
	j.Local, j.Remote = jsonAddrs(s.Local), jsonAddrs(s.Remote)
}

func jsonAddrs(all []perftest.Endpoint) (addrs []jsonAddr) {
	for _, e := range all {
		addrs = append(addrs, jsonAddr{e.LID, e.QPN, e.PSN, e.GID.String()})
	}
	return addrs
}

func (j *jsonReport) latency(p *session, l *perf.Latency) {
	r := jsonLatency{l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Avg, nil, l.P99, l.P999, l.PerSecond, p.samplesOf(l)}
	if l.PerSecond == 0 {
		r.Stdev = &l.Stdev
	}
	j.Results = append(j.Results, r)
}

func (j *jsonReport) bandwidth(_ *session, b *perf.Bandwidth) {
	j.Results = append(j.Results, jsonBandwidth{b.Size, b.Messages, b.Peak, b.Average, b.Rate})
}

// write prints the line, and returns the failures.
func (j *jsonReport) write(p *session, err error) error {
	j.Test, j.Role = p.kind.Verb.String()+" "+p.kind.Name(), "client"
	if p.Role == perftest.Server {
		j.Role = "server"
	}
	if j.Results == nil {
		j.Results = []any{}
	}
	if err != nil {
		j.Error = cli.Plain(err)
	}
	return errors.Join(err, p.WriteJSON(j))
}
