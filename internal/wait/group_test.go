package wait

import (
	"context"
	"errors"
	"testing"
)

func TestGroup(t *testing.T) {
	var g Group
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Wait(canceled); err != nil {
		t.Error("an empty group:", err)
	}
	g.Add()
	g.Add()
	if err := g.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.Done()
	if err := g.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waits := make(chan error)
	for range 2 {
		go func() { waits <- g.Wait(t.Context()) }()
	}
	g.Done()
	for range 2 {
		if err := <-waits; err != nil {
			t.Error(err)
		}
	}
	g.Add() // it may be used again
	if err := g.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
