package rdmatest_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ending is a test that ends when its method is called, and whose errors are none of the test's.
type ending struct {
	cleanups []func()
	errors   []string
}

func (e *ending) Helper()             {}
func (e *ending) Cleanup(done func()) { e.cleanups = append(e.cleanups, done) }
func (e *ending) Errorf(format string, args ...any) {
	e.errors = append(e.errors, fmt.Sprintf(format, args...))
}

func (e *ending) end() {
	for _, done := range slices.Backward(e.cleanups) {
		done()
	}
}

// TestLeakNamed checks that an object that is left is named when no goroutine runs that could close
// it.
func TestLeakNamed(t *testing.T) {
	e := new(ending)
	f := rdmatest.New(e)
	dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
	start := time.Now()
	e.end()
	if took := time.Since(start); len(e.errors) != 1 || !strings.Contains(e.errors[0], dev.Info().Name) || took >= time.Minute {
		t.Errorf("%q after %v", e.errors, took)
	}
}

// TestLateClose checks that an object that a goroutine or a timer closes later is no leak.
func TestLateClose(t *testing.T) {
	for name, late := range map[string]func(end func()){
		"goroutine": func(end func()) { go end() },
		"timer":     func(end func()) { time.AfterFunc(time.Millisecond, end) },
	} {
		t.Run(name, func(t *testing.T) {
			e := new(ending)
			f := rdmatest.NewWith(e, &rdmatest.Options{LeakTimeout: time.Minute})
			dev := must(uverbs.Open(f.Host(0).Device(0).Name()))(t)
			late(func() { dev.Close() })
			if e.end(); len(e.errors) > 0 {
				t.Errorf("%q", e.errors)
			}
		})
	}
}

// TestLeakInBubble checks that in a bubble, where waiting costs nothing, a timer has a minute to
// close an object.
func TestLeakInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(ending)
		f := rdmatest.New(e)
		dev := must(uverbs.Open(f.Host(0).Device(0).Name()))(t)
		time.AfterFunc(50*time.Second, func() { dev.Close() })
		if e.end(); len(e.errors) > 0 {
			t.Errorf("%q", e.errors)
		}
	})
}

// TestIdleFaults checks that a fault that never happened is an error of the test, unless it was
// stopped or is optional.
func TestIdleFaults(t *testing.T) {
	e := new(ending)
	f := rdmatest.New(e)
	d := f.Host(0).Device(0)
	d.Fail(rdmatest.CallAllocPD, 3, syscall.EIO)
	d.FailSend(0, verbs.StatusFatalErr)
	d.FailRecv(0, verbs.StatusFatalErr)
	d.CutSend(0, 1)
	f.FailCM(rdmatest.CMConnect, syscall.EIO)
	f.HoldCM(rdmatest.CMAccept)
	d.Fail(rdmatest.CallOpen, 0, syscall.EIO).Optional()
	d.Fail(rdmatest.CallOpen, 0, syscall.EIO).Stop()
	f.FailCM(rdmatest.CMListen, syscall.EIO).Optional()
	e.end()
	if len(e.errors) != 6 {
		t.Errorf("%q", e.errors)
	}
	for _, what := range []string{"ALLOC_PD", "FailSend", "FailRecv", "CutSend", "FailCM", "HoldCM"} {
		if !slices.ContainsFunc(e.errors, func(s string) bool { return strings.Contains(s, what) }) {
			t.Errorf("%s is not in %q", what, e.errors)
		}
	}
}
