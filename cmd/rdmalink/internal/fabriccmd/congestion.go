package fabriccmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type congestionOptions struct {
	common
	target
}

var congestion = define(&program{
	name: "congestion", args: "[OPTIONS] OPERATION ADDRESS [PORT]",
	summary: "print an attribute of congestion control of a node",
	text: `
Operations, and their short names: ClassPortInfo (CP), CongestionInfo (CI),
CongestionKeyInfo (CK), CongestionLog (CL), SwitchCongestionSetting (SS),
SwitchPortCongestionSetting (SP), CACongestionSetting (CS), CongestionControlTable
(CT), Timestamp (TI). SwitchPortCongestionSetting prints all ports, or one PORT.
`,
}, 3, append(commonRows[congestionOptions](),
	lidRow[congestionOptions](),
	guidRow[congestionOptions](),
	smRow[congestionOptions](),
	cli.NewRow('c', "cckey", "KEY", "CC_Key of requests of congestion control", func(o *congestionOptions, v string) error {
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			return cli.UsageError{Text: fmt.Sprintf("invalid CC_Key %q: expected a 64-bit number", v)}
		}
		o.ccKey = n
		return nil
	}),
), showCongestion)

// congested is the state of the command.
type congested struct {
	*session
	c    *fabric.Client
	lid  uint16
	port int // 0: all
}

// congestionOperations are the attributes that the command prints.
var congestionOperations = []struct {
	long, short string
	show        func(q *congested, ctx context.Context) error
}{
	{"ClassPortInfo", "CP", func(q *congested, ctx context.Context) error {
		info, err := q.c.ClassPortInfo(ctx, q.c.GSI(q.lid), mad.ClassCC)
		if err != nil {
			return err
		}
		return q.print("ClassPortInfo", &info)
	}},
	{"CongestionInfo", "CI", func(q *congested, ctx context.Context) error {
		return q.attribute(ctx, "CongestionInfo", new(mad.CongestionInfo))
	}},
	{"CongestionKeyInfo", "CK", func(q *congested, ctx context.Context) error {
		return q.attribute(ctx, "CongestionKeyInfo", new(mad.CongestionKeyInfo))
	}},
	{"CongestionLog", "CL", (*congested).log},
	{"SwitchCongestionSetting", "SS", func(q *congested, ctx context.Context) error {
		return q.attribute(ctx, "SwitchCongestionSetting", new(mad.SwitchCongestionSetting))
	}},
	{"SwitchPortCongestionSetting", "SP", (*congested).ports},
	{"CACongestionSetting", "CS", (*congested).adapter},
	{"CongestionControlTable", "CT", (*congested).table},
	{"Timestamp", "TI", func(q *congested, ctx context.Context) error {
		return q.attribute(ctx, "Timestamp", new(mad.CongestionTimestamp))
	}},
}

func showCongestion(ctx context.Context, s *session, o *congestionOptions, words []string) error {
	if len(words) < 2 {
		return cli.Expected("", "OPERATION ADDRESS")
	}
	var all []string
	for _, op := range congestionOperations {
		all = append(all, op.long)
		if !strings.EqualFold(op.long, words[0]) && !strings.EqualFold(op.short, words[0]) {
			continue
		}
		q := &congested{session: s}
		if len(words) > 2 {
			port, err := portWord(words[2])
			if err != nil {
				return err
			}
			q.port = int(port)
		}
		var err error
		if q.c, err = s.open(); err != nil {
			return err
		}
		if q.lid, err = s.lid(ctx, q.c, o.target, words[1]); err != nil {
			return err
		}
		return op.show(q, ctx)
	}
	return cli.Expected(words[0], all...)
}

func (q *congested) get(ctx context.Context, modifier uint32, a mad.Attribute) error {
	return q.c.GetCongestion(ctx, q.c.GSI(q.lid), modifier, a)
}

// attribute reads an attribute and prints it.
func (q *congested) attribute(ctx context.Context, title string, a mad.Attribute) error {
	if err := q.get(ctx, 0, a); err != nil {
		return err
	}
	return q.print(title, a)
}

func (q *congested) print(title string, a mad.Attribute) error {
	if q.JSON {
		return q.WriteJSON(rawJSON(mad.AppendJSON(nil, a, nil)))
	}
	return q.Printf("# %s: %v\n%s", title, mad.ByLID(q.lid), mad.Dump(a, nil))
}

// heading prints a title and the fields of an attribute that are not in an array.
func (q *congested) heading(title string, a mad.Attribute) error {
	if q.JSON {
		return nil
	}
	return q.Printf("# %s: %v\n%s\n", title, mad.ByLID(q.lid), mad.Dump(a, &mad.DumpOptions{Omit: inArray}))
}

func inArray(f *mad.Field) bool { return f.Array != "" }

// entry returns an entry of the arrays of an attribute, in the format of C's programs.
func entry(a mad.Attribute, index int) string {
	var b strings.Builder
	fields := mad.LayoutOf(a).Fields
	for i := range fields {
		if f := &fields[i]; f.Array != "" && f.Name == f.Array+strconv.Itoa(index) {
			b.WriteString(dotted(f.Array, f.Text(a)))
		}
	}
	return b.String()
}

// dotted returns a name and a value in the format of C's programs.
func dotted(name, value string) string {
	return name + ":" + strings.Repeat(".", max(0, 32-len(name))) + value + "\n"
}

// entryTable returns an entry of the arrays of an attribute for JSON, below its number.
func entryTable(name string, number int, a mad.Attribute, index int) table.Table {
	t := table.Table{{Key: name, Value: uint32(number)}}
	fields := mad.LayoutOf(a).Fields
	for i := range fields {
		f := &fields[i]
		switch {
		case f.Array == "" || f.Name != f.Array+strconv.Itoa(index):
		case f.Kind == mad.KindUint:
			t.Add(f.Array, f.Uint(a))
		default:
			t.AddText(f.Array, f.Text(a))
		}
	}
	return t
}

func (q *congested) log(ctx context.Context) error {
	var head mad.CongestionLog
	if err := q.get(ctx, 0, &head); err != nil {
		return err
	}
	var log mad.Attribute
	var used func(i int) bool
	entries := 0
	switch head.Type {
	case mad.CongestionLogOfSwitch:
		l := new(mad.CongestionLogSwitch)
		log, entries = l, len(l.Log)
		used = func(i int) bool { return l.Log[i] != mad.CongestionEventSwitch{} }
	case mad.CongestionLogOfCA:
		l := new(mad.CongestionLogCA)
		log, entries = l, len(l.Log)
		used = func(i int) bool { return l.Log[i] != mad.CongestionEventCA{} }
	default:
		return fmt.Errorf("unknown type of CongestionLog: %d", head.Type)
	}
	if err := q.get(ctx, 0, log); err != nil {
		return err
	}
	if q.JSON {
		return q.WriteJSON(rawJSON(mad.AppendJSON(nil, log, nil)))
	}
	rest := mad.Dump(log, &mad.DumpOptions{Omit: func(f *mad.Field) bool {
		return inArray(f) || f.Name == "LogType" || f.Name == "CongestionFlags"
	}})
	if err := q.Printf("# CongestionLog: %v\n%s%s\n", mad.ByLID(q.lid), mad.Dump(&head, nil), rest); err != nil {
		return err
	}
	for i := range entries {
		if used(i) {
			if err := q.Printf("%s\n", entry(log, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *congested) ports(ctx context.Context) error {
	var info mad.NodeInfo
	if err := q.c.Get(ctx, mad.ByLID(q.lid), 0, &info); err != nil {
		return err
	}
	if info.Type != mad.NodeSwitch {
		return fmt.Errorf("%v is not a switch", mad.ByLID(q.lid))
	}
	if q.port > int(info.NumPorts) {
		return fmt.Errorf("%v has ports up to %d, not %d", mad.ByLID(q.lid), info.NumPorts, q.port)
	}
	first, last := 0, int(info.NumPorts)
	if q.port != 0 {
		first, last = q.port, q.port
	}
	if !q.JSON {
		if err := q.Printf("# SwitchPortCongestionSetting: %v\n", mad.ByLID(q.lid)); err != nil {
			return err
		}
	}
	list := []table.Table{}
	var setting mad.SwitchPortCongestionSetting
	perBlock := len(setting.Ports)
	for port := first; port <= last; port++ {
		if port == first || port%perBlock == 0 {
			if err := q.get(ctx, uint32(port/perBlock), &setting); err != nil {
				return err
			}
		}
		var err error
		switch {
		case q.JSON:
			list = append(list, entryTable("Port", port, &setting, port%perBlock))
		case q.port != 0:
			err = q.Printf("%s", entry(&setting, port%perBlock))
		default:
			err = q.Printf("%s%s\n", dotted("Port", strconv.Itoa(port)), entry(&setting, port%perBlock))
		}
		if err != nil {
			return err
		}
	}
	if q.JSON {
		return q.WriteJSON(list)
	}
	return nil
}

func (q *congested) adapter(ctx context.Context) error {
	var setting mad.CACongestionSetting
	if err := q.get(ctx, 0, &setting); err != nil {
		return err
	}
	if q.JSON {
		return q.WriteJSON(rawJSON(mad.AppendJSON(nil, &setting, nil)))
	}
	if err := q.heading("CACongestionSetting", &setting); err != nil {
		return err
	}
	for sl := range setting.Entries {
		if err := q.Printf("%s%s\n", dotted("SL", strconv.Itoa(sl)), entry(&setting, sl)); err != nil {
			return err
		}
	}
	return nil
}

func (q *congested) table(ctx context.Context) error {
	var t mad.CongestionControlTable
	if err := q.get(ctx, 0, &t); err != nil {
		return err
	}
	limit := int(t.Limit)
	if err := q.heading("CongestionControlTable", &t); err != nil {
		return err
	}
	list := []table.Table{}
	for i := 0; limit > 0 && i <= limit; i++ {
		if i > 0 && i%len(t.Entries) == 0 {
			if err := q.get(ctx, uint32(i/len(t.Entries)), &t); err != nil {
				return err
			}
		}
		if q.JSON {
			list = append(list, entryTable("Entry", i, &t, i%len(t.Entries)))
			continue
		}
		if err := q.Printf("%s%s\n", dotted("Entry", strconv.Itoa(i)), entry(&t, i%len(t.Entries))); err != nil {
			return err
		}
	}
	if q.JSON {
		return q.WriteJSON(map[string]any{"CCTI_Limit": limit, "entries": list})
	}
	return nil
}
