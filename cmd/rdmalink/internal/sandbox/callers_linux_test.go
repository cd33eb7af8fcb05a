package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"testing"
)

// TestCallerExec checks that the memory of a caller that is kept is that of the program which it has become.
func TestCallerExec(t *testing.T) {
	c := exec.Command("sh", "-c", "read line && exec cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = c.Wait()
	}()
	p := processOf(t, c.Process.Pid)
	p.calls = true
	read := func() error {
		var first uint64
		if _, err := fmt.Sscanf(string(p.readFile("maps")), "%x-", &first); err != nil {
			return err
		}
		return p.read(first, make([]byte, 8))
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(in, "\nhere\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if err := read(); err != nil {
		t.Errorf("after exec: %v", err)
	}
}

// TestCallers checks that a thread's process is the caller's alone during a call, and that few are kept.
func TestCallers(t *testing.T) {
	var c callers
	defer c.forget()
	for id := range 2 * mostCallers {
		c.keep(&process{id: id, dir: -1})
	}
	if len(c.by) != mostCallers {
		t.Errorf("%d callers are kept", len(c.by))
	}
	if last := 2*mostCallers - 1; c.take(last) == nil || c.take(last) != nil {
		t.Error("the last caller was not there once")
	}
}

// TestRelieve checks that other calls are received if one takes long.
func TestRelieve(t *testing.T) {
	var s supervisor
	s.receiving.Lock()
	s.current.Store(7)
	s.callsWatched.Store(true)
	go s.watchCalls()
	s.receiving.Lock()
	if s.current.Load() != 0 {
		t.Error("the call still keeps others waiting")
	}
	s.receiving.Unlock()
}
