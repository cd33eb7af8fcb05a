//go:build vm

package test

import (
	"regexp"
	"testing"
)

// spokeEarly are the ends of a connection over siw whose accepting program spoke first.
// On iWARP that is left to the side that dials (RFC 5044, 7.1), but librdmacm's rsocket
// offers its buffer as soon as the accepting program reads. On a busy machine, this is
// sometimes too early:
//
//   - It comes right behind the answer to the dial. siw takes both for one answer that is
//     not valid, and ends the dial.
//   - It is under way when the READ of nothing comes with which Dial proves the connection.
//     siw lays the READ aside without its length, answers it with the length of what was
//     sent before, finds no memory of that length, and ends the connection.
//
// The last pattern is another mistake, which riostream makes over any device. It listens
// first and asks for room for mappings afterwards, while a thread of rsocket accepts
// already. A connection that is made in between has no room.
var spokeEarly = regexp.MustCompile(`the side that dials has to send first|(?s)synchronize: .*connection reset by peer|the peer takes 0 mappings`)

// notEarly meets a C program that accepts, and meets it again if it spoke too early.
func notEarly(t *testing.T, meet func() error) {
	t.Helper()
	for range 10 {
		err := meet()
		if err == nil {
			return
		}
		if !spokeEarly.MatchString(err.Error()) {
			t.Fatal(err)
		}
		t.Log("once more: ", err)
	}
	t.Fatal("it spoke too early each time")
}
