package podresources

import (
	"strings"
	"testing"
)

// TestAnswerMemory checks that an answer of empty messages takes no memory.
func TestAnswerMemory(t *testing.T) {
	for name, element := range map[string]string{"pods": "\x0a\x00", "containers": "\x0a\x02\x1a\x00", "devices": "\x0a\x04\x1a\x02\x12\x00", "claims": "\x0a\x06\x1a\x04\x2a\x02\x22\x00"} {
		message := []byte(strings.Repeat(element, 1000))
		a := Answer{All: make([]Allocation, Max)}
		if n := testing.AllocsPerRun(100, func() {
			if err := a.Decode(message); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
