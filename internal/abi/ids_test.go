package abi

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

// TestIDsOnlyGrow checks that each enum of ids in Series is the beginning of one in Newest, so
// that their ids are the same.
func TestIDsOnlyGrow(t *testing.T) {
	include, err := headers.Dir()
	if err != nil {
		missing(t, err)
	}
	old, grown := idsOf(t, filepath.Join(include, "rdma", headers.IDs)), idsOf(t, filepath.Join(headers.VerbsDir(include), headers.IDs))
	for first, ids := range old {
		if now := grown[first]; len(now) < len(ids) || !slices.Equal(now[:len(ids)], ids) {
			t.Errorf("the enum that begins with %s was %q, and is %q", first, ids, now)
		}
	}
	if len(old) < 50 || len(grown) <= len(old) {
		t.Errorf("%d enums, then %d", len(old), len(grown))
	}
}

var (
	enumBody = regexp.MustCompile(`enum\s*\w*\s*\{([^}]*)\}`)
	comment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// idsOf returns the enums of a header by their first members.
func idsOf(t *testing.T, header string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(header)
	if err != nil {
		missing(t, err)
	}
	enums := make(map[string][]string)
	for _, m := range enumBody.FindAllStringSubmatch(comment.ReplaceAllString(string(text), ""), -1) {
		var ids []string
		for id := range strings.SplitSeq(m[1], ",") {
			if id = strings.TrimSpace(id); id != "" {
				ids = append(ids, id)
			}
		}
		enums[ids[0]] = ids
	}
	return enums
}
