package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRpingLine is about the command line as a whole; its options are package rping's.
func TestRpingLine(t *testing.T) {
	tool, _, nets := machine()
	want := result{Code: 2, Err: "rdmalink: expected one of -s, -c\nUsage: rdmalink rping -s|-c [OPTIONS] (rdmalink rping -h tells more)\n"}
	if diff := cmp.Diff(want, tool.runLine("rping -v", nets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRpingHelp: -h may stand anywhere, as with the other commands.
func TestRpingHelp(t *testing.T) {
	tool, _, nets := machine()
	want := tool.runLine("rping -h", nets)
	tool, _, nets = machine()
	if got := tool.runLine("rping -s -p 1 -h", nets); got.Code != 0 || cmp.Diff(want, got) != "" {
		t.Errorf("%+v", got)
	}
}

// TestRpingInterrupted: an interrupt before there is a connection.
func TestRpingInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, strings.Fields("rping -c -a 192.0.2.1"), nil, &stdout, &stderr)
	if code != exitFailed || stderr.String() != "rdmalink: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("%d, %s%s", code, &stdout, &stderr)
	}
}
