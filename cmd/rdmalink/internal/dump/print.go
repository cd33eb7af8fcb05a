package dump

import (
	"fmt"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
)

// print prints a message. since is the time from the first packet.
func (s *session) print(since time.Duration, m *decode.Message) error {
	if s.JSON {
		t := table.Table{{Key: "packet", Value: s.packets}, {Key: "seconds", Value: since.Seconds()},
			{Key: "src", Value: m.Src.String()}, {Key: "dst", Value: m.Dst.String()}}
		for _, l := range m.Layers {
			t.Add(l.Name, l.Fields)
		}
		return s.WriteJSON(t)
	}
	return s.Printf("%d %.6f %s > %s %s\n", s.packets, since.Seconds(), m.Src, m.Dst, cli.Printable(text(m.Layers)))
}

// text is one line: BTH RC SEND_ONLY pad 0 ...; payload length 64; ICRC correct.
func text(layers []decode.Layer) string {
	parts := make([]string, len(layers))
	for i, l := range layers {
		words := []string{l.Name}
		for _, f := range l.Fields {
			words = append(words, f.Key)
			switch v := f.Value.(type) {
			case bool:
				if !v {
					words[len(words)-1] = "not " + f.Key
				}
			case decode.Hex:
				words = append(words, fmt.Sprintf("%#x", uint64(v)))
			case string:
				if strings.Contains(v, " ") {
					v = "(" + v + ")"
				}
				words = append(words, v)
			default:
				words = append(words, fmt.Sprint(v))
			}
		}
		parts[i] = strings.Join(words, " ")
	}
	return strings.Join(parts, "; ")
}
