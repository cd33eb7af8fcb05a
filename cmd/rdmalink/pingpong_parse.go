package main

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/uverbs"
)

func (k *pingpongKind) defaults() pingpongOptions {
	o := pingpongOptions{tcpPort: 18515, ibPort: 1, size: k.size, mtu: uverbs.MTU1024, rxDepth: 500, iters: 1000, gid: -1, qpCount: 1}
	if k.srq {
		o.qpCount = 16
	}
	return o
}

// parsePingpong reads the words as getopt_long would: letters may share a word,
// a value may stand in its option's word or in the next, the host anywhere.
func parsePingpong(k *pingpongKind, w *words) (pingpongOptions, error) {
	o := k.defaults()
	for w.pos < len(w.list) {
		word := w.peek()
		w.advance()
		var err error
		switch {
		case word == "--":
			for _, host := range w.rest() {
				err = o.setHost(host)
			}
		case strings.HasPrefix(word, "--"):
			err = o.long(k, word, w)
		case len(word) > 1 && word[0] == '-':
			err = o.letters(k, word[1:], w)
		default:
			err = o.setHost(word)
		}
		if err != nil {
			return o, err
		}
	}
	return o, o.check()
}

func (o *pingpongOptions) setHost(word string) error {
	if o.host != "" || word == "" {
		return usageError{text: fmt.Sprintf("%q is one word too many", word)}
	}
	o.host = word
	return nil
}

// long applies --option, --option=value or --option value.
func (o *pingpongOptions) long(k *pingpongKind, word string, w *words) error {
	name, value, assigned := strings.Cut(word[2:], "=")
	for _, p := range k.options() {
		if p.long != name || assigned && p.value == "" {
			continue
		}
		if p.value != "" && !assigned {
			var err error
			if value, err = w.value(word + " " + p.value); err != nil {
				return err
			}
		}
		return p.set(o, value)
	}
	return k.badWord(word)
}

// letters applies the options of one word.
func (o *pingpongOptions) letters(k *pingpongKind, word string, w *words) error {
	for i := range len(word) {
		p := k.option(word[i])
		if p == nil {
			return k.badWord("-" + word[i:i+1])
		}
		if p.value == "" {
			if err := p.set(o, ""); err != nil {
				return err
			}
			continue
		}
		value := word[i+1:]
		if value == "" {
			var err error
			if value, err = w.value(fmt.Sprintf("-%c %s", p.letter, p.value)); err != nil {
				return err
			}
		}
		return p.set(o, value)
	}
	return nil
}

func (k *pingpongKind) option(letter byte) *pingpongOption {
	for _, p := range k.options() {
		if p.letter == letter {
			return p
		}
	}
	return nil
}

func (k *pingpongKind) badWord(word string) error {
	var want []string
	for _, p := range k.options() {
		want = append(want, fmt.Sprintf("-%c", p.letter))
	}
	return expected(word, append(want, "HOST")...)
}

// check refuses what makes no sense together.
func (o *pingpongOptions) check() error {
	switch {
	case o.qpCount > o.rxDepth:
		return usageError{text: fmt.Sprintf("-r %d is too little for %d QPs: each needs a receive", o.rxDepth, o.qpCount)}
	case o.prefetch && !o.odp:
		return usageError{text: "-P is for memory that is paged in on demand: -o"}
	}
	return nil
}
