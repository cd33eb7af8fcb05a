//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"text/template"
)

// pageText is the page but for its figures; what a person has to say about them
// is written there.
//
//go:embed performance.md.tmpl
var pageText string

// publish writes raw figures, plots and the page into a directory.
func publish(d document, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	raw, err := d.encode()
	if err != nil {
		return err
	}
	page, err := renderPage(d)
	if err != nil {
		return err
	}
	files := map[string]string{"performance.json": string(raw), "performance.md": page}
	for name, svg := range d.plots() {
		files[name] = svg
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func renderPage(d document) (string, error) {
	t, err := template.New("performance.md").Parse(pageText)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, page{d})
	return b.String(), err
}
