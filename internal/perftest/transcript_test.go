package perftest

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

//go:embed testdata/transcripts.txt
var transcripts string

// line is one message of a transcript.
type line struct {
	from Role
	text []byte
}

// transcript has the messages of two of perftest's programs.
type transcript struct {
	program string // and its options
	test    Test
	qps     int
	sizes   int
	lines   []line
	marked  bool // one of them is perftest 6.29, which sends structs with markers
}

func readTranscripts(t testing.TB) (all []*transcript) {
	t.Helper()
	for text := range strings.Lines(transcripts) {
		text = strings.TrimSuffix(text, "\n")
		if versions, program, ok := strings.Cut(text, ": ib_"); ok && strings.HasPrefix(text, "# perftest ") {
			all = append(all, newTranscript(t, "ib_"+program))
			all[len(all)-1].marked = strings.HasPrefix(versions, "# perftest 6.29")
			continue
		}
		from, quoted, ok := strings.Cut(text, " ")
		if !ok || strings.HasPrefix(text, "#") {
			continue
		}
		said, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		l := line{Server, []byte(said)}
		if from == ">" {
			l.from = Client
		}
		tr := all[len(all)-1]
		tr.lines = append(tr.lines, l)
	}
	if len(all) != 17 {
		t.Fatalf("%d transcripts", len(all))
	}
	return all
}

// newTranscript parses perftest's options.
func newTranscript(t testing.TB, program string) *transcript {
	t.Helper()
	tr := &transcript{program: program, qps: 1, sizes: 1}
	words := strings.Fields(program)
	verb, measure, _ := strings.Cut(strings.TrimPrefix(words[0], "ib_"), "_")
	for tr.test.Verb = Send; tr.test.Verb.String() != verb; tr.test.Verb++ {
		if tr.test.Verb > Atomic {
			t.Fatalf("no verb in %s", program)
		}
	}
	tr.test.Latency = measure == "lat"
	for i, word := range words {
		switch word {
		case "-b":
			tr.test.Bidirectional = true
		case "-R":
			tr.test.CM = true
		case "-q":
			tr.qps, _ = strconv.Atoi(words[i+1])
		case "-a":
			tr.test.AllSizes = true
			tr.sizes = 23 // up to 8 MiB
			if strings.Contains(program, "-c UD") {
				tr.sizes = 10 // up to the MTU
			}
		}
	}
	if tr.test.String() != words[0] {
		t.Fatalf("%v, not %s", tr.test, words[0])
	}
	return tr
}

// said returns the messages of an end that have a length.
func (tr *transcript) said(from Role, length int) (all [][]byte) {
	for _, l := range tr.lines {
		if text := withoutDone(l.text); l.from == from && len(text) == length {
			all = append(all, text)
		}
	}
	return all
}

// withoutDone: the last two words of an end often arrive at once.
func withoutDone(text []byte) []byte {
	if len(text) > len("done\x00") {
		return []byte(strings.TrimSuffix(string(text), "done\x00"))
	}
	return text
}

// system returns the first message of an end.
func (tr *transcript) system(t testing.TB, from Role) (s System) {
	t.Helper()
	var errs [4]error
	s.Version, errs[0] = parseVersion(tr.said(from, versionSize)[0])
	s.CycleBuffer, errs[1] = parseStep(tr.said(from, 4)[0])
	s.CacheLine, errs[2] = parseStep(tr.said(from, 4)[1])
	s.MTU, errs[3] = parseMTU(tr.said(from, 2)[0])
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.Version != "6.06" && !tr.marked || s.CycleBuffer != 4096 || s.CacheLine != 64 || s.MTU > verbs.MTU1024 {
		t.Errorf("%+v", s)
	}
	return s
}

// endpoints returns the addresses of all QPs that an end sent last before its QPs were
// connected.
func (tr *transcript) endpoints(t testing.TB, from Role) []Endpoint {
	t.Helper()
	size, parse, skip := gidSize, func(b []byte) (Endpoint, error) { return parseEndpoint(b, true) }, 0
	if tr.test.CM {
		size, skip = structSize, 2
		if tr.marked {
			size = markedSize
		}
		parse = func(b []byte) (Endpoint, error) { return parseStruct(b, tr.marked) }
	}
	if tr.test.swapsFirstTwice() {
		skip++
	}
	var all []Endpoint
	for _, text := range tr.said(from, size)[skip : skip+tr.qps] {
		e, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// reports returns the reports of an end.
func (tr *transcript) reports(from Role) (all []Report) {
	words := tr.said(from, 8)
	for ; len(words) > 0; words = words[reportFields:] {
		var w [reportFields]uint64
		for i := range w {
			w[i], _ = parseWord(words[i])
		}
		all = append(all, reportOf(w))
	}
	return all
}
