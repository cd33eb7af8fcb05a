package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"
)

// TestPictures checks that the files are the program's output, and XML.
func TestPictures(t *testing.T) {
	for name, words := range pictures {
		file, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil || !bytes.Equal(file, draw(words)) {
			t.Errorf("%s: run go generate ./internal/picture (%v)", name, err)
		}
		var any struct{ XMLName xml.Name }
		if err := xml.Unmarshal(file, &any); err != nil || any.XMLName.Local != "svg" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
