//go:build linux

package rig

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestFramesRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	w := NewFrameWriter(&buf)
	w.Write(FrameReady, nil)
	w.Write(FrameStdout, []byte("out"))
	w.Write(FrameStderr, []byte("err"))
	w.Write(FrameStdout, nil)
	w.Write(FrameExit, []byte("7"))
	var out, errs bytes.Buffer
	code, err := listen(&buf, Config{Stdout: &out, Stderr: &errs}, idle(t))
	if code != 7 || err != nil || out.String() != "out" || errs.String() != "err" {
		t.Errorf("code %d, err %v, stdout %q, stderr %q", code, err, &out, &errs)
	}
}

func TestListenFails(t *testing.T) {
	for name, stream := range map[string]string{
		"guest died":     "o\x00\x00\x00\x02hi",
		"cut in header":  "o\x00\x00",
		"cut in payload": "o\x00\x00\x00\x09hi",
		"huge frame":     "o\xff\xff\xff\xff",
		"unknown kind":   "?\x00\x00\x00\x00",
		"init failed":    "f\x00\x00\x00\x02no",
		"no number":      "x\x00\x00\x00\x01?",
	} {
		if code, err := listen(bytes.NewReader([]byte(stream)), Config{Stdout: io.Discard, Stderr: io.Discard}, idle(t)); err == nil {
			t.Errorf("%s: code %d and no error", name, code)
		}
	}
}

// idle is a watchdog that has no reason to bark.
func idle(t *testing.T) *watchdog {
	w := newWatchdog(time.Hour, func(cause error) { t.Error(cause) })
	t.Cleanup(w.stop)
	return w
}

func TestWatchdogBarksAfterReady(t *testing.T) {
	barked := make(chan error, 1)
	w := newWatchdog(-lastWords, func(cause error) { barked <- cause })
	defer w.stop()
	w.ready()
	if err := <-barked; !strings.Contains(err.Error(), "hung") {
		t.Errorf("%v", err)
	}
}

type brokenPipe struct{}

var errBroken = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

func TestListenReaderGone(t *testing.T) {
	_, err := listen(bytes.NewReader([]byte("o\x00\x00\x00\x02hi")), Config{Stdout: brokenPipe{}}, idle(t))
	if !errors.Is(err, errBroken) {
		t.Errorf("%v, want %v", err, errBroken)
	}
}
