package perftest

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// seeds are the messages of the transcripts that have a length.
func seeds(f *testing.F, length int) {
	f.Helper()
	for _, tr := range readTranscripts(f) {
		for _, l := range tr.lines {
			if text := withoutDone(l.text); len(text) == length {
				f.Add(text)
			}
		}
	}
	f.Add(make([]byte, length))
	f.Add([]byte("done\x00"))
}

// FuzzEndpoint checks that a decoded endpoint is the same after it was encoded and decoded again.
func FuzzEndpoint(f *testing.F) {
	seeds(f, gidSize)
	f.Add([]byte(aPlainQP))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, gid := range []bool{true, false} {
			e, err := parseEndpoint(b, gid)
			if again := e.append(nil, gid); err == nil && !bytes.Equal(again, bytes.ToLower(b)) {
				t.Errorf("%q for %q", again, b)
			}
		}
	})
}

func FuzzStruct(f *testing.F) {
	seeds(f, structSize)
	f.Add(aQP.appendStruct(nil, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, marked := range []bool{false, true} {
			e, err := parseStruct(b, marked)
			if err != nil {
				continue
			}
			b := bytes.Clone(b)
			clear(b[20:24]) // padding
			if marked {
				clear(b[32:40]) // tail_markers_vaddr
			}
			clear(b[len(b)-4:]) // gid_index
			if again := e.appendStruct(nil, marked); !bytes.Equal(again, b) {
				t.Errorf("%q for %q", again, b)
			}
		}
	})
}

func FuzzVersion(f *testing.F) {
	seeds(f, versionSize)
	f.Add([]byte("5.69\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		version, err := parseVersion(b)
		if again := appendVersion(nil, version); err == nil && (len(again) != len(b) || !bytes.HasPrefix(b, append([]byte(version), 0))) {
			t.Errorf("%q for %q", again, b)
		}
	})
}

func FuzzStep(f *testing.F) {
	seeds(f, 4)
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseStep(b)
		if err == nil && (n < 1 || n > maxStep || !bytes.Equal(appendStep(nil, n), b)) {
			t.Errorf("%d for %q", n, b)
		}
	})
}

func FuzzMTU(f *testing.F) {
	seeds(f, 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMTU(b)
		if err == nil && (m.Bytes() == 0 || !bytes.Equal(appendMTU(nil, m), b)) {
			t.Errorf("%v for %q", m, b)
		}
	})
}

func FuzzWord(f *testing.F) {
	seeds(f, 8)
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := parseWord(b)
		if err == nil && !bytes.Equal(appendWord(nil, w), b) {
			t.Errorf("%d for %q", w, b)
		}
	})
}

// FuzzSession lets a peer send anything and then close. Both ends must return, with an error
// unless the messages were a session.
func FuzzSession(f *testing.F) {
	all := readTranscripts(f)
	for i, tr := range all {
		var said [2][]byte
		for _, l := range tr.lines {
			said[l.from] = append(said[l.from], l.text...)
		}
		for _, text := range said {
			f.Add(byte(i), text)
			f.Add(byte(i), text[:len(text)/2])
			f.Add(byte(i), []byte(strings.Replace(string(text), ":", "\x00", 7)))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, said []byte) {
		tr := all[int(which)%len(all)]
		if tr.test.CM {
			tr = all[0]
		}
		for _, role := range []Role{Client, Server} {
			ours, theirs := net.Pipe()
			go discard(theirs)
			go func() {
				theirs.Write(said)
				theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			s := OverTCP(ours, role, tr.test)
			_ = tr.goThrough(ctx, s, role)
			cancel()
			ours.Close()
		}
	})
}

func discard(conn net.Conn) {
	for b := make([]byte, 4096); ; {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// goThrough runs a session with its own figures.
func (tr *transcript) goThrough(ctx context.Context, s *Session, role Role) error {
	if _, err := s.Greet(ctx, System{CycleBuffer: 4096, CacheLine: 64, MTU: 3}); err != nil {
		return err
	}
	own := make([]Endpoint, tr.qps)
	for i := range own {
		own[i] = Endpoint{QPN: uint32(0x100*int(role) + i + 1)}
	}
	if _, err := s.Meet(ctx, own); err != nil {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	for range tr.sizes {
		if role == Server && tr.test.ServerIdle() {
			break
		}
		if err := s.Begin(ctx); err != nil {
			return err
		}
		if _, err := s.End(ctx, Report{Size: 2, Iterations: 3, Average: 4}); err != nil {
			return err
		}
	}
	_, err := s.Finish(ctx, Report{Size: 2, Iterations: 3, Average: 4})
	return err
}
