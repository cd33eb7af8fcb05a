package plot

import (
	"fmt"
	"math"
	"slices"
)

// An Axis says how numbers become places.
type Axis struct {
	Label string // with the unit
	Log   bool   // only numbers above 0 then
	Ticks []Tick // the places that get a label; nil: chosen
}

// Tick is a labelled place.
type Tick struct {
	value float64
	label string
}

// At makes a tick.
func At(value float64, label string) Tick { return Tick{value, label} }

// scale takes numbers to pixels.
type scale struct {
	log      bool
	from, to float64 // numbers, or their logarithms
	low, len float64 // pixels
	ticks    []Tick
}

func (s scale) place(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

func (s scale) at(v float64) float64 { return s.low + (s.place(v)-s.from)/(s.to-s.from)*s.len }

// scale fits the axis to values, from one pixel to another.
func (a Axis) scale(first, last float64, values []float64) scale {
	values = slices.DeleteFunc(values, func(v float64) bool { return !finite(v) || a.Log && v <= 0 })
	for _, t := range a.Ticks {
		values = append(values, t.value)
	}
	if len(values) == 0 {
		values = []float64{1, 10}
	}
	s := scale{log: a.Log, low: first, len: last - first, ticks: a.Ticks}
	low, high := slices.Min(values), slices.Max(values)
	if a.Log {
		s.from, s.to = math.Log10(low), math.Log10(high)
	} else {
		s.from, s.to = 0, high
	}
	if s.ticks == nil {
		s.choose()
	} else {
		margin := (s.to - s.from) * 0.03
		s.from, s.to = s.from-margin, s.to+margin
	}
	return s
}

// choose puts ticks at round numbers and widens the scale to them.
func (s *scale) choose() {
	if s.log {
		s.from, s.to = math.Floor(s.from), math.Ceil(s.to)
		if s.from == s.to {
			s.to++
		}
		for e := s.from; e <= s.to; e++ {
			s.ticks = append(s.ticks, At(math.Pow(10, e), number(math.Pow(10, e))))
		}
		return
	}
	step := roundUp(s.to / 6)
	s.to = math.Ceil(s.to/step) * step
	for v := 0.0; v <= s.to+step/2; v += step {
		s.ticks = append(s.ticks, At(v, number(v)))
	}
}

// roundUp finds 1, 2 or 5 times a power of ten.
func roundUp(x float64) float64 {
	if x <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= m*power {
			return m * power
		}
	}
	return 10 * power
}

// number writes thousands apart, in narrow spaces.
func number(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.4g", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "\u202f" + digits[at:]
	}
	return digits
}
