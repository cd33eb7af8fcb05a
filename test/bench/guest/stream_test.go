//go:build linux

package main

import "testing"

func TestRstreamSamples(t *testing.T) {
	s, err := rstreamSamples("name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\ncustom    64      1       100     12k         0.00s      0.13       3.92\n")
	if err != nil || len(s) != 1 || s[0].Value != 3.92 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "3.92", "name usec/xfer", "rstream: connection refused"} {
		if s, err := rstreamSamples(bad); err == nil {
			t.Errorf("%q is %+v", bad, s)
		}
	}
}
