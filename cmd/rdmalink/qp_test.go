package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

func TestQPStates(t *testing.T) {
	for line, want := range map[string]struct {
		code     int
		out, err string
	}{
		"qp states":          {0, "mlx5_0 lqpn 17 RC pid 7", ""},
		"qp st RC -j":        {0, `"type":"RC","from":"RESET"`, ""},
		"qp states xrc":      {2, "", `"xrc": expected one of rc, uc, ud`},
		"qp states rc uc":    {2, "", `"uc" is one word too many`},
		"qp":                 {2, "", "expected one of states, help"},
		"qp states --svg /x": {0, "", ""},
	} {
		line = strings.Replace(line, "/x", filepath.Join(t.TempDir(), "qp.svg"), 1)
		tool, _ := resourceMachine()
		got := tool.runLine(line, &hosttest.Netdevs{})
		if got.Code != want.code || !strings.Contains(got.Out, want.out) || !strings.Contains(got.Err, want.err) || (got.Err == "") != (want.err == "") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
