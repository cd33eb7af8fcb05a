package providertest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

// probe is the test that a changed tour runs in.
type probe struct {
	testing.TB
	failed  bool
	cleanup []func()
}

func (*probe) Helper()                 {}
func (p *probe) Cleanup(f func())      { p.cleanup = append(p.cleanup, f) }
func (p *probe) Error(...any)          { p.failed = true }
func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Fatal(...any)          { p.failed = true; runtime.Goexit() }
func (p *probe) Fatalf(string, ...any) { p.failed = true; runtime.Goexit() }

// run runs f and all that it left to be done, on a goroutine that f may end.
func (p *probe) run(f func()) (panicked string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		defer func() {
			for i := range p.cleanup {
				p.cleanup[len(p.cleanup)-1-i]()
			}
		}()
		f()
	}()
	<-done
	return panicked
}
