package verbtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// creators has the verbs that create the objects whose other methods need no probe of their own: on
// a device that creates the object they work.
var creators = map[string]string{
	"AH": "PD.CreateAH", "CQ": "Device.CreateCQ", "CompChannel": "Device.CreateCompChannel", "CompCounter": "Device.CreateCompCounter", "Counters": "Device.CreateCounters",
	"DM": "Device.AllocDM", "DMAH": "Device.AllocDMAH", "Flow": "QP.CreateFlow", "MR": "PD.AllocMR", "MW": "PD.AllocMW", "PD": "Device.AllocPD",
	"QP": "PD.CreateQP", "RWQIndTable": "Device.CreateRWQIndTable", "SRQ": "PD.CreateSRQ", "WQ": "PD.CreateWQ", "XRCD": "Device.OpenXRCD",
}

// alias has the verbs that answer for calls of another name.
var alias = map[string]string{
	"ImportFile": "Device.ImportFile", "MR.Prefetch": "PD.AdviseMR", "PD.AHFromWC": "PD.CreateAH", "Device.AHAttrFromWC": "PD.CreateAH",
	"QP.SetECE": "QP.ECE", "QP.DetachMcast": "QP.AttachMcast",
}

// answerer returns the verb of Device.Probe that answers for a call, or "" if every device has the
// call.
func answerer(call string) string {
	probed := func(name string) bool {
		return slices.ContainsFunc(uverbs.Verbs(), func(v uverbs.Verb) bool {
			verb, _, _ := strings.Cut(string(v), " ")
			return verb == name
		})
	}
	object, _, _ := strings.Cut(call, ".")
	switch {
	case probed(call):
		return call
	case alias[call] != "":
		return alias[call]
	}
	return creators[object]
}

// Models are the kinds of devices of package rdmatest, and the calls that work on each.
type Models struct {
	kinds []rdmatest.Kind
	works map[rdmatest.Kind]map[string]bool // by a verb without its variant
}

// ProbeModels probes a device of each kind.
func ProbeModels() (m *Models, err error) {
	m = &Models{kinds: append(slices.Clone(rdmatest.Kinds), rdmatest.EFA), works: make(map[rdmatest.Kind]map[string]bool)}
	for _, kind := range m.kinds {
		p := &program{}
		err = errors.Join(err, m.probe(p, kind), p.end())
	}
	return m, err
}

func (m *Models) probe(p *program, kind rdmatest.Kind) error {
	f := rdmatest.NewWith(p, &rdmatest.Options{Kind: kind})
	dev, err := uverbs.Open(f.Host(0).Device(0).Name())
	if err != nil {
		return err
	}
	defer dev.Close() // it has no objects
	m.works[kind] = make(map[string]bool)
	for _, v := range uverbs.Verbs() {
		err := dev.Probe(v)
		if err != nil && !errors.Is(err, verbs.ErrNotSupported) {
			return err
		}
		name, _, _ := strings.Cut(string(v), " ")
		m.works[kind][name] = m.works[kind][name] || err == nil
	}
	return nil
}

// on returns the models on which one of the calls works.
func (m *Models) on(calls []string) string {
	if len(calls) == 0 {
		return ""
	}
	var names []string
	for _, kind := range m.kinds {
		if slices.ContainsFunc(calls, func(call string) bool {
			verb := answerer(call)
			return verb == "" || m.works[kind][verb]
		}) {
			names = append(names, kind.String())
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case len(m.kinds):
		return "all"
	}
	return strings.Join(names, ", ")
}

// program stands for a test's *testing.T.
type program struct {
	cleanup []func()
	errs    []error
}

func (p *program) Helper()          {}
func (p *program) Cleanup(f func()) { p.cleanup = append(p.cleanup, f) }

func (p *program) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *program) end() error {
	for i := len(p.cleanup) - 1; i >= 0; i-- {
		p.cleanup[i]()
	}
	return errors.Join(p.errs...)
}
