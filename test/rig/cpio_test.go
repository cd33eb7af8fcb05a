//go:build linux

package rig

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCpioLayout(t *testing.T) {
	var buf bytes.Buffer
	c := &cpioWriter{w: &buf}
	c.dir("d")
	c.file("d/f", 0o600, []byte("hello"))
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	const zero = "00000000"
	want := "070701" + "00000001" + "000041ED" + zero + zero + "00000001" + zero + zero + zero + zero + zero + zero + "00000002" + zero + "d\x00" +
		"070701" + "00000002" + "00008180" + zero + zero + "00000001" + zero + "00000005" + zero + zero + zero + zero + "00000004" + zero + "d/f\x00\x00\x00" + "hello\x00\x00\x00" +
		"070701" + "00000003" + zero + zero + zero + "00000001" + zero + zero + zero + zero + zero + zero + "0000000B" + zero + "TRAILER!!!\x00\x00\x00\x00"
	if got := buf.String(); got != want {
		t.Errorf("archive:\n got %q\nwant %q", got, want)
	}
}

type fullDisk struct{ room int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("disk full")

func TestCpioKeepsFirstError(t *testing.T) {
	c := &cpioWriter{w: &fullDisk{room: 150}}
	c.file("f", 0o644, []byte(strings.Repeat("x", 100)))
	c.file("g", 0o644, nil)
	if err := c.close(); !errors.Is(err, errFull) {
		t.Errorf("close: %v, want %v", err, errFull)
	}
}
