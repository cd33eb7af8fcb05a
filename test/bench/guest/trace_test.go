//go:build linux

package main

import (
	"maps"
	"testing"
)

func TestHistogram(t *testing.T) {
	const text = `# event histogram
#
# trigger info: hist:keys=common_pid.execname,id.syscall:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ common_pid: rdmalink        [       155], id: sys_futex                     [202] } hitcount:          1
{ common_pid: rdmalink        [       156], id: sys_futex                     [202] } hitcount:         40
{ common_pid: sh              [       155], id: sys_dup2                      [ 33] } hitcount:          1
{ common_pid: rdmalink        [     10156], id: sys_write                     [  1] } hitcount:     123456

Totals:
    Hits: 123499
    Entries: 4
    Dropped: 0
`
	got, err := systemCalls.parse(text, "rdmalink")
	if want := map[string]int{"futex": 41, "write": 123456}; err != nil || !maps.Equal(got, want) {
		t.Error(got, err)
	}
	if _, err := systemCalls.parse(text, "rping"); err == nil {
		t.Error("no call counted, and no error")
	}
}

func TestWakeUpHistogram(t *testing.T) {
	const text = `# trigger info: hist:keys=comm:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ comm: rdmalink                                           } hitcount:          3
{ comm: kworker/0:1                                        } hitcount:         40
`
	got, err := wakeUps.parse(text, "rdmalink")
	if want := map[string]int{"": 3}; err != nil || !maps.Equal(got, want) {
		t.Error(got, err)
	}
}
