//go:build vm

package test

import (
	"bytes"
	"io"
	"sync"
)

// transcript collects the output of a command, so that the command never waits
// for a reader; readers may wait for it.
type transcript struct {
	mu    sync.Mutex
	grown sync.Cond
	text  []byte
	read  int // how far ReadString has come
	ended bool
}

func newTranscript(r io.Reader) *transcript {
	tr := &transcript{}
	tr.grown.L = &tr.mu
	go func() {
		io.Copy(tr, r)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.ended = true
		tr.grown.Broadcast()
	}()
	return tr
}

func (tr *transcript) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.text = append(tr.text, b...)
	tr.grown.Broadcast()
	return len(b), nil
}

// soFar returns the output so far.
func (tr *transcript) soFar() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return string(tr.text)
}

// all waits for the end and returns everything.
func (tr *transcript) all() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for !tr.ended {
		tr.grown.Wait()
	}
	return string(tr.text)
}

// ReadString waits for the next end byte and returns the output up to it.
func (tr *transcript) ReadString(end byte) (string, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for {
		if i := bytes.IndexByte(tr.text[tr.read:], end); i >= 0 {
			line := tr.text[tr.read : tr.read+i+1]
			tr.read += len(line)
			return string(line), nil
		}
		if tr.ended {
			rest := string(tr.text[tr.read:])
			tr.read = len(tr.text)
			return rest, io.EOF
		}
		tr.grown.Wait()
	}
}
