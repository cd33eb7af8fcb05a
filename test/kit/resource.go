//go:build vm

package kit

import (
	"iter"
	"testing"
)

// Dumped returns the elements of a dump, which has to succeed.
func Dumped[T any](t *testing.T, dump iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for v, err := range dump {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}
