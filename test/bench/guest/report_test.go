//go:build linux

package main

import (
	"errors"
	"io"
	"testing"
	"time"
)

const latencyReport = `---------------------------------------------------------------------------------------
                    Send Latency Test
 TX depth        : 1
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       4          21.74          87.18        24.55    	       30.17       	9.52   		87.18   		87.18  
---------------------------------------------------------------------------------------
`

const bandwidthReport = `---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      64000            639.86             638.87 		   0.010222
---------------------------------------------------------------------------------------
`

func TestReport(t *testing.T) {
	r, err := parseReport([]byte(latencyReport))
	if err != nil || len(r) != 9 || r.typical() != 24.55 {
		t.Fatal(r, err)
	}
	r, err = parseReport([]byte(bandwidthReport))
	if err != nil || r.rate() != 0.010222 {
		t.Error(r, err)
	}
	if _, err := parseReport([]byte("#bytes\n65536 64000 0.00 0.00 0.000000\n")); err == nil {
		t.Error("a report of no messages")
	}
	if _, err := parseReport([]byte("Unable to create QP.\n")); err == nil {
		t.Error("a report from nothing")
	}
	if _, err := parseReport([]byte("Correlation coefficient r^2: 0.67 < 0.9\n")); !errors.Is(err, errNoClock) {
		t.Error(err)
	}
}

// TestAgain checks that a failure of perftest that a busy machine causes doesn't use up the tries for other failures.
func TestAgain(t *testing.T) {
	b := &bench{log: io.Discard}
	tried := 0
	got, err := again(b, func(patience time.Duration) (int, error) {
		if tried++; tried <= 20 {
			return 0, errNoClock
		}
		if patience != pairPatience {
			t.Error(patience)
		}
		return tried, nil
	})
	if got != 21 || err != nil {
		t.Error(got, err)
	}
	if _, err = again(b, func(time.Duration) (int, error) { tried++; return 0, io.EOF }); err != io.EOF || tried != 21+tries {
		t.Error(tried, err)
	}
}
