package main

import (
	"cmp"
	"errors"
	"iter"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// resourceShow is the listing of one kind, on one device at a time.
type resourceShow struct {
	t        *tool
	p        *printer
	f        filters
	kind     *resourceKind
	dev      netlinkrdma.Device
	port     uint32 // 0: all
	portless bool   // DEV/-
	noRaw    error  // why the first device without raw data has none, while no other had some
	hadRaw   bool
	comms    map[uint32]string // by thread
	pids     map[uint32]int    // of threads; 0: not known
}

func (t *tool) showResourceKind(k *resourceKind, w *words) error {
	f, err := parseFilters(w, k.keys)
	if err != nil {
		return err
	}
	return t.showFiltered(k, f)
}

func (t *tool) showFiltered(k *resourceKind, f filters) (err error) {
	s := &resourceShow{t: t, f: f, kind: k, comms: make(map[uint32]string), pids: make(map[uint32]int)}
	name := f.text("dev")
	if link := f.text("link"); link != "" {
		if name, s.portless = strings.CutSuffix(link, "/-"); !s.portless || name == "" {
			if name, s.port, err = splitLink(link); err != nil {
				return err
			}
		}
	}
	s.p = t.printer()
	err = t.ForDevices(name, func(d netlinkrdma.Device) error {
		s.dev = d
		return s.device()
	})
	if !s.hadRaw {
		err = cmp.Or(err, s.noRaw)
	}
	return errors.Join(err, s.p.close())
}

func (s *resourceShow) device() error {
	if s.port > s.dev.Ports {
		return noPort(s.dev, s.port)
	}
	defer s.p.flush()
	if s.t.raw && s.kind.hasRaw {
		return s.showRaw()
	}
	return s.kind.show(s)
}

func (s *resourceShow) options() *netlinkrdma.DumpOptions {
	o := s.t.dumpOptions()
	o.Port = s.port
	return o
}

// forEach gives f the objects of a dump, or the one whose number, under key,
// was asked for, where get can find it.
func forEach[T any](s *resourceShow, key string, dump iter.Seq2[T, error], get func(number uint32) (T, error), f func(v T)) error {
	if number, ok := s.f.exact(key); ok && get != nil {
		v, err := get(number)
		switch {
		case errors.Is(err, netlinkrdma.ErrNoObject):
			return nil
		case err != nil:
			return err
		}
		f(v)
		return nil
	}
	for v, err := range dump {
		if err != nil {
			return err
		}
		f(v)
	}
	return nil
}

// beginOnDevice starts an object that belongs to no port.
func (s *resourceShow) beginOnDevice() {
	s.p.begin()
	if s.p.json {
		s.p.uint("ifindex", uint64(s.dev.Index))
		s.p.word("ifname", s.dev.Name)
		return
	}
	s.p.word("dev", s.dev.Name)
}

// beginOnLink starts an object that may belong to a port.
func (s *resourceShow) beginOnLink(port uint32) {
	s.p.begin()
	if s.p.json {
		s.p.uint("ifindex", uint64(s.dev.Index))
		s.p.word("ifname", s.dev.Name)
		if port != 0 {
			s.p.uint("port", uint64(port))
		}
		return
	}
	s.p.name("link")
	s.p.text(s.dev.Name)
	s.p.text("/")
	if port == 0 {
		s.p.text("-")
	} else {
		s.p.number(uint64(port))
	}
	s.p.done()
}

// hasPort tells whether objects of this port were asked for.
func (s *resourceShow) hasPort(port uint32) bool {
	return (s.port == 0 || s.port == port) && (!s.portless || port == 0)
}
