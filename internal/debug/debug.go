// Package debug prints this process's requests to the kernel, and the kernel's answers,
// if the environment variable GOVERBS_DEBUG is set. Users attach the output to bug reports.
//
// GOVERBS_DEBUG is a list of the words ioctl, cm and netlink, separated by commas. It is
// read once, when the program starts. A package checks its variable ([Ioctl], [CM] or
// [Netlink]) before it prepares anything to print, so that a call costs one branch while
// the variable is unset. Calls of the hot path check and print nothing.
package debug

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

// Variable is the name of the environment variable.
const Variable = "GOVERBS_DEBUG"

// The kinds of calls that are printed. Nothing but tests changes them after the program
// has started.
var (
	Ioctl   bool // requests to a uverbs device
	CM      bool // commands to the connection manager
	Netlink bool // requests of the NETLINK_RDMA family
)

// maxLine is the longest line in bytes, without its newline.
const maxLine = 1024

var output struct {
	sync.Mutex
	w io.Writer
}

func init() {
	output.w = os.Stderr
	choose(os.Getenv(Variable))
}

// choose turns on the kinds that words names. Unknown words are reported in one line.
func choose(words string) {
	Ioctl, CM, Netlink = false, false, false
	var unknown []string
	for word := range strings.SplitSeq(words, ",") {
		switch word = strings.TrimSpace(word); word {
		case "ioctl":
			Ioctl = true
		case "cm":
			CM = true
		case "netlink":
			Netlink = true
		case "":
		default:
			unknown = append(unknown, strconv.Quote(word))
		}
	}
	if unknown != nil {
		write(fmt.Sprintf("%s: unknown: %s (want ioctl, cm or netlink, separated by commas)", Variable, strings.Join(unknown, ", ")))
	}
}

// Capture prints to w, for a test, the kinds that words names. It must not be called while
// another goroutine asks the kernel for anything. Restore undoes it.
func Capture(w io.Writer, words string) (restore func()) {
	old, ioctl, cm, netlink := output.w, Ioctl, CM, Netlink
	output.w = w
	choose(words)
	return func() { output.w, Ioctl, CM, Netlink = old, ioctl, cm, netlink }
}

// Print prints one call of a kind: the time when it began, its text, its result and its
// duration.
func Print(kind string, began time.Time, text string, err error) {
	write(fmt.Sprintf("%s %s %s: %s (%v)", began.Format("15:04:05.000000"), kind, text, result(err), time.Since(began).Round(time.Microsecond)))
}

// result names an errno. The text of an error that has more than an errno follows the name.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	name := errnoName(errno)
	if name == "" {
		name = fmt.Sprintf("errno %d", uintptr(errno))
	}
	if err == error(errno) {
		return name
	}
	return name + ": " + err.Error()
}

// write writes one line with one call, so that lines of several processes do not mix.
func write(line string) {
	b := append(printable(line), '\n')
	output.Lock()
	defer output.Unlock()
	output.w.Write(b)
}

// printable quotes control characters and bounds the length: a name in the line may come
// from another process, and the line may go to a terminal.
func printable(line string) []byte {
	const end = "…"
	b := []byte("goverbs: ")
	for i, r := range line {
		before := len(b)
		switch {
		case unicode.IsPrint(r) && r != unicode.ReplacementChar:
			b = append(b, string(r)...)
		case r == unicode.ReplacementChar: // perhaps for a byte that is not UTF-8
			b = fmt.Appendf(b, `\x%02x`, line[i])
		default:
			q := strconv.QuoteRune(r)
			b = append(b, q[1:len(q)-1]...)
		}
		if len(b) > maxLine-len(end) {
			return append(b[:before], end...)
		}
	}
	return b
}
