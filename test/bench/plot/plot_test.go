package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

var example = Chart{
	Title: "bandwidth <siw>",
	X:     Axis{Label: "message size", Log: true, Ticks: []Tick{At(2, "2 B"), At(1024, "1 KiB"), At(1<<20, "1 MiB")}},
	Y:     Axis{Label: "MiB/s", Log: true},
	Lines: []Line{
		{Name: "goverbs", Points: []Point{{2, 3, 2, 4}, {1024, 300, 300, 300}, {1 << 20, 900, 800, 1000}}},
		{Name: "perftest", Colour: 1, Dashed: true, Points: []Point{{2, 3, 2, 4}, {1 << 20, 950, 800, 1000}}},
	},
}

// TestSVG: it is XML, and what the chart says is in it.
func TestSVG(t *testing.T) {
	svg := example.SVG()
	d := xml.NewDecoder(strings.NewReader(svg))
	elements := make(map[string]int)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["polyline"] != 2 || elements["circle"] != 5+2 {
		t.Errorf("elements: %v", elements)
	}
	for _, want := range []string{"bandwidth &lt;siw&gt;", "message size", "MiB/s", ">goverbs<", ">perftest<", ">1 MiB<", ">1\u202f000<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error(svg)
	}
}

func TestNoData(t *testing.T) {
	if svg := (Chart{Y: Axis{Log: true}}).SVG(); strings.Contains(svg, "NaN") {
		t.Error(svg)
	}
}

func TestTicks(t *testing.T) {
	s := Axis{}.scale(0, 100, []float64{3, 17})
	var labels []string
	for _, tick := range s.ticks {
		labels = append(labels, tick.label)
	}
	if got := strings.Join(labels, " "); got != "0 5 10 15 20" {
		t.Error(got)
	}
	if at := s.at(20); at != 100 {
		t.Error(at)
	}
}
