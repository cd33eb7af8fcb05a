// Package plot draws line charts as SVG: axes with units, a line with markers for
// each series, a legend. No dependency, and the same bytes for the same data.
package plot

import (
	"fmt"
	"math"
	"strings"
)

// A Chart is one picture. Series share a colour by Group, and are told apart within
// it by how their lines are broken.
type Chart struct {
	Title string
	X, Y  Axis
	Lines []Line
}

// Line is one series.
type Line struct {
	Name   string
	Colour int  // of palette
	Dashed bool // else in one piece
	Points []Point
}

// Point is a value with its spread; Low and High are Y where there is none.
type Point struct{ X, Y, Low, High float64 }

// size of the picture and where in it the data go, in pixels.
const (
	width, height            = 760, 460
	left, right, top, bottom = 84, 190, 48, 56
)

// palette is of Okabe and Ito: colour-blind readers can tell them apart.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// SVG draws the chart.
func (c Chart) SVG() string {
	x, y := c.X.scale(left, width-right, c.each(func(p Point) []float64 { return []float64{p.X} })),
		c.Y.scale(height-bottom, top, c.each(func(p Point) []float64 { return []float64{p.Y, p.Low, p.High} }))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, (left+width-right)/2.0, 26, `text-anchor="middle" font-size="15" font-weight="bold"`, c.Title)
	c.grid(&b, x, y)
	for _, l := range c.Lines {
		l.draw(&b, x, y)
	}
	for i, l := range c.Lines {
		l.legend(&b, top+10+20*i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// each collects numbers of all points.
func (c Chart) each(of func(Point) []float64) (all []float64) {
	for _, l := range c.Lines {
		for _, p := range l.Points {
			all = append(all, of(p)...)
		}
	}
	return all
}

func (c Chart) grid(b *strings.Builder, x, y scale) {
	for _, t := range x.ticks {
		at := x.at(t.value)
		line(b, at, top, at, height-bottom, `stroke="#e4e4e4"`)
		text(b, at, height-bottom+18, `text-anchor="middle"`, t.label)
	}
	for _, t := range y.ticks {
		at := y.at(t.value)
		line(b, left, at, width-right, at, `stroke="#e4e4e4"`)
		text(b, left-8, at+4, `text-anchor="end"`, t.label)
	}
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#555"/>`+"\n", left, top, width-right-left, height-bottom-top)
	text(b, (left+width-right)/2.0, height-14, `text-anchor="middle"`, c.X.Label)
	middle := (top + height - bottom) / 2
	text(b, 20, float64(middle), fmt.Sprintf(`text-anchor="middle" transform="rotate(-90 20 %d)"`, middle), c.Y.Label)
}

func (l Line) colour() string { return palette[l.Colour%len(palette)] }

func (l Line) dash() string {
	if l.Dashed {
		return ` stroke-dasharray="6 4"`
	}
	return ""
}

func (l Line) draw(b *strings.Builder, x, y scale) {
	var path []string
	for _, p := range l.Points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
		if p.Low != p.High {
			line(b, x.at(p.X), y.at(p.Low), x.at(p.X), y.at(p.High), fmt.Sprintf(`stroke="%s" stroke-opacity="0.5"`, l.colour()))
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(path, " "), l.colour(), l.dash())
	for _, p := range l.Points {
		marker(b, x.at(p.X), y.at(p.Y), l)
	}
}

func (l Line) legend(b *strings.Builder, at int) {
	const from = width - right + 14
	line(b, from, float64(at), from+28, float64(at), fmt.Sprintf(`stroke="%s" stroke-width="2"%s`, l.colour(), l.dash()))
	marker(b, from+14, float64(at), l)
	text(b, from+36, float64(at+4), "", l.Name)
}

// marker is hollow on a dashed line.
func marker(b *strings.Builder, x, y float64, l Line) {
	fill := l.colour()
	if l.Dashed {
		fill = "#fff"
	}
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s" stroke="%s"/>`+"\n", x, y, fill, l.colour())
}

func line(b *strings.Builder, x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func text(b *strings.Builder, x, y float64, style, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, style, escape.Replace(s))
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
