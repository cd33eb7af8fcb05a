package wait

import (
	"context"
	"sync"
)

// Group counts objects that are in use. Unlike with a [sync.WaitGroup], the wait for the last one takes a context, and
// more may be added meanwhile. The zero value counts none.
type Group struct {
	mu    sync.Mutex // guards the fields below
	count int
	empty chan struct{} // closed when count is 0; nil while nobody waits for that
}

// Add counts an object.
func (g *Group) Add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
}

// Done undoes an Add.
func (g *Group) Done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Wait waits until the count is 0. If ctx ends first, it returns ctx.Err().
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.count > 0 && g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
