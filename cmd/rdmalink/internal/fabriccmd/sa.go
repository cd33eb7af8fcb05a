package fabriccmd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type saOptions struct {
	common
	kind     *saRecord // record that an option selects
	view     saView
	src, dst string // names or LIDs

	// The values that records must have. given holds the names of those that were set.
	sgid, dgid, gid, mgid           verbs.GID
	given                           map[string]uint64
	members, groups, isSM, portInfo bool
}

// saView is the format in which nodes are printed.
type saView byte

const (
	viewAll    saView = 'N'
	viewLIDs   saView = 'L'
	viewLID    saView = 'l'
	viewGUIDs  saView = 'G'
	viewByLID  saView = 'O'
	viewByGUID saView = 'U'
	viewList   saView = 'D'
)

var sa = define(&program{
	name: "sa", args: "[OPTIONS] [QUERY] [ARGUMENT…]",
	summary: "print records of subnet administration",
	text: `
Queries, their short names and arguments: ClassPortInfo (CPI), NodeRecord (NR) [LID],
PortInfoRecord (PIR) [LID/PORT/OPTIONS], SL2VLTableRecord (SL2VL) [LID/IN/OUT],
PKeyTableRecord (PKTR) [LID/PORT/BLOCK], VLArbitrationTableRecord (VLAR)
[LID/PORT/BLOCK], InformInfoRecord (IIR) [GID], LinkRecord (LR) [LID/PORT [LID/PORT]],
ServiceRecord (SR), PathRecord (PR), MCMemberRecord (MCMR), LFTRecord (LFTR)
[LID/BLOCK], MFTRecord (MFTR) [LID/POSITION/BLOCK], GUIDInfoRecord (GIR) [LID/BLOCK],
SwitchInfoRecord (SWIR) [LID], SMInfoRecord (SMIR) [LID]. The default query is
NodeRecord. The name of a node can replace its LID.
`,
}, 3, saRows(), showRecords)

func saRows() []cli.Row[saOptions] {
	view := func(v saView, help string) cli.Row[saOptions] {
		return cli.NewRow(byte(v), string(rune(v)), "", help, func(o *saOptions, _ string) error { o.view = v; return nil })
	}
	kind := func(letter byte, record, help string) cli.Row[saOptions] {
		return cli.NewRow(letter, string(rune(letter)), "", help, func(o *saOptions, _ string) error { o.kind = findRecord(record); return nil })
	}
	value := func(letter byte, long, help string, most uint64) cli.Row[saOptions] {
		return cli.NewRow(letter, long, "N", help, func(o *saOptions, v string) error {
			n, err := strconv.ParseUint(v, 0, 64)
			if err != nil || n > most {
				return cli.UsageError{Text: fmt.Sprintf("%q: --%s is a number from 0 to 0x%x", v, long, most)}
			}
			o.set(long, n)
			return nil
		})
	}
	gid := func(long, help string, field func(*saOptions) *verbs.GID) cli.Row[saOptions] {
		return cli.NewRow(0, long, "GID", help, func(o *saOptions, v string) (err error) { *field(o), err = gidWord(v); return err })
	}
	list := view(viewList, "print the LIDs and names of the channel adapters")
	list.Long = "list"
	return []cli.Row[saOptions]{
		cli.NewRow('C', "Ca", "DEV", "RDMA device (default: that of the first active InfiniBand port)", func(o *saOptions, v string) error { o.device = v; return nil }),
		cli.NewRow('P', "Port", "PORT", "port of the device (default: the first active one)", cli.Number("port", 1, math.MaxUint8, func(o *saOptions) *int { return &o.port })),
		cli.NewRow('t', "timeout", "MS", "timeout of each request, in milliseconds (default 1000)", cli.Number("timeout", 1, math.MaxInt32, func(o *saOptions) *int { return &o.timeout })),
		jsonRow[saOptions](),
		cli.NewRow('K', "show_keys", "", "print keys", cli.Flag(func(o *saOptions) *bool { return &o.showKeys })),
		kind('p', "PR", "print PathRecords"),
		view(viewAll, "print NodeRecords, those of a name if one is given"),
		view(viewLIDs, "print the LIDs of a name"),
		view(viewLID, "print the first LID of a name"),
		view(viewGUIDs, "print the port GUIDs of a name"),
		view(viewByLID, "print the name of a LID"),
		view(viewByGUID, "print the name of a port GUID"),
		list,
		cli.NewRow('s', "s", "", "print the ports with a subnet manager, and with a disabled one", cli.Flag(func(o *saOptions) *bool { return &o.isSM })),
		cli.NewRow('g', "g", "", "print the multicast groups", cli.Flag(func(o *saOptions) *bool { return &o.groups })),
		cli.NewRow('m', "m", "", "print the members of all multicast groups, or of that with an MLID", cli.Flag(func(o *saOptions) *bool { return &o.members })),
		kind('x', "LR", "print LinkRecords"),
		cli.NewRow('c', "c", "", "print the capabilities of subnet administration", cli.Flag(func(o *saOptions) *bool { return &o.portInfo })),
		kind('S', "SR", "print ServiceRecords"),
		kind('I', "IIR", "print InformInfoRecords: the subscriptions"),
		cli.NewRow(0, "src-to-dst", "SRC:DST", "print the PathRecord from a name or LID to another", func(o *saOptions, v string) error {
			src, dst, ok := strings.Cut(v, ":")
			if !ok {
				return cli.Expected(v, "SRC:DST")
			}
			o.src, o.dst, o.kind = src, dst, findRecord("PR")
			o.set("numb_path", 0x7f)
			return nil
		}),
		cli.NewRow(0, "sgid-to-dgid", "GID-GID", "print the PathRecord from a GID to another", func(o *saOptions, v string) (err error) {
			src, dst, ok := strings.Cut(v, "-")
			if !ok {
				return cli.Expected(v, "GID-GID")
			}
			if o.sgid, err = gidWord(src); err == nil {
				o.dgid, err = gidWord(dst)
			}
			o.kind = findRecord("PR")
			o.set("numb_path", 0x7f)
			return err
		}),
		cli.NewRow(0, "smkey", "KEY", "SM_Key of the query; the subnet manager trusts its own key", func(o *saOptions, v string) error {
			n, err := strconv.ParseUint(v, 0, 64)
			if err != nil {
				return cli.UsageError{Text: fmt.Sprintf("invalid SM_Key %q: expected a 64-bit number", v)}
			}
			o.smKey = n
			return nil
		}),
		cli.NewRow(0, "max-message", "MIB", "longest response to accept, in MiB (default 64)", cli.Number("length", 1, 1<<10-1, func(o *saOptions) *int { return &o.longest })),
		value(0, "slid", "LID of the source of paths", math.MaxUint16),
		value(0, "dlid", "LID of the destination of paths", math.MaxUint16),
		value(0, "mlid", "LID of the multicast group of members", math.MaxUint16),
		gid("sgid", "GID of the source of paths", func(o *saOptions) *verbs.GID { return &o.sgid }),
		gid("dgid", "GID of the destination of paths", func(o *saOptions) *verbs.GID { return &o.dgid }),
		gid("gid", "GID of the port of members", func(o *saOptions) *verbs.GID { return &o.gid }),
		gid("mgid", "GID of the multicast group of members", func(o *saOptions) *verbs.GID { return &o.mgid }),
		value('r', "reversible", "whether paths are reversible: 0 or 1", 1),
		value('n', "numb_path", "how many paths between each two ports", 0x7f),
		value(0, "pkey", "P_Key of paths and members", math.MaxUint16),
		value('Q', "qos_class", "QoS class of paths", 0xfff),
		value(0, "sl", "service level of paths and members", 15),
		value('M', "mtu", "MTU of paths and members, with its selector in bits 6 and 7", math.MaxUint8),
		value('R', "rate", "rate of paths and members, with its selector", math.MaxUint8),
		value(0, "pkt_lifetime", "packet life time of paths and members, with its selector", math.MaxUint8),
		value('q', "qkey", "Q_Key of members", math.MaxUint32),
		value('T', "tclass", "traffic class of paths and members", math.MaxUint8),
		value('F', "flow_label", "flow label of paths and members", 1<<20-1),
		value('H', "hop_limit", "hop limit of paths and members", math.MaxUint8),
		value(0, "scope", "scope of members", 15),
		value('J', "join_state", "join state of members", 15),
		value('X', "proxy_join", "whether members joined by a proxy: 0 or 1", 1),
		value(0, "service_id", "service ID of paths", math.MaxUint64),
		namesRow[saOptions](),
	}
}

func (o *saOptions) set(name string, v uint64) {
	if o.given == nil {
		o.given = make(map[string]uint64)
	}
	o.given[name] = v
}

func gidWord(word string) (verbs.GID, error) {
	a, err := netip.ParseAddr(word)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return verbs.GID{}, cli.UsageError{Text: fmt.Sprintf("invalid GID %q: expected an IPv6 address such as fe80::2:c903:0:1", word)}
	}
	return verbs.GID(a.As16()), nil
}

// recordText writes the fields of a record in the format of C's saquery.
type recordText struct {
	strings.Builder
	width int // width of the names
	raw   []byte
	q     *asking
}

func (t *recordText) line(label, format string, args ...any) {
	t.WriteString("\t\t" + label + strings.Repeat(".", max(0, t.width-len(label))))
	fmt.Fprintf(t, format+"\n", args...)
}

func (t *recordText) u8(at int) uint8   { return t.raw[at] }
func (t *recordText) u16(at int) uint16 { return binary.BigEndian.Uint16(t.raw[at:]) }
func (t *recordText) u32(at int) uint32 { return binary.BigEndian.Uint32(t.raw[at:]) }
func (t *recordText) u64(at int) uint64 { return binary.BigEndian.Uint64(t.raw[at:]) }
func (t *recordText) gid(at int) string {
	return netip.AddrFrom16([16]byte(t.raw[at : at+16])).String()
}

// saRecord is a kind of record that can be queried.
type saRecord struct {
	long, short string
	id          mad.AttrID
	title       string
	width       int
	// ask returns the query, and the fields in which records must be equal to it.
	ask  func(q *asking, words []string) (mad.Attribute, mad.ComponentMask, error)
	text func(t *recordText, a mad.Attribute)
}

// asking is the state of the command.
type asking struct {
	*session
	ctx    context.Context
	o      *saOptions
	c      *fabric.Client
	names  fabric.Names
	agent  mad.ClassPortInfo // capabilities of subnet administration, for records that depend on them
	byName map[string]uint16
	json   []any
	cut    error // fabric.ErrTruncated if a response was truncated
}

func findRecord(word string) *saRecord {
	for i := range saRecords {
		if r := &saRecords[i]; strings.EqualFold(r.long, word) || strings.EqualFold(r.short, word) {
			return r
		}
	}
	return nil
}

func showRecords(ctx context.Context, s *session, o *saOptions, words []string) error {
	q := &asking{session: s, ctx: ctx, o: o, json: []any{}}
	if !o.portInfo && !o.isSM && !o.groups && !o.members && o.view == 0 && o.kind == nil {
		o.kind = findRecord("NR")
		if len(words) > 0 {
			if r := findRecord(words[0]); r != nil {
				o.kind, words = r, words[1:]
				o.portInfo = r.short == "CPI"
			}
		}
	}
	word := ""
	if len(words) > 0 {
		word = words[0]
	}
	if word == "" && strings.ContainsRune("LlGOU", rune(o.view)) && o.view != 0 {
		return cli.UsageError{Text: fmt.Sprintf("-%c needs an argument: a name, a LID for -O, or a port GUID for -U", o.view)}
	}
	var err error
	if q.names, err = s.nodeNames(); err != nil {
		return err
	}
	if q.c, err = s.open(); err != nil {
		return err
	}
	if o.portInfo || o.kind != nil && o.kind.short == "SWIR" {
		to, err := q.c.SM()
		if err != nil {
			return err
		}
		if q.agent, err = q.c.ClassPortInfo(ctx, to, mad.ClassSA); err != nil {
			return err
		}
	}
	switch {
	case o.portInfo:
		return q.showAgent()
	case o.isSM:
		err = q.managers()
	case o.groups:
		err = q.groups()
	case o.members:
		err = q.members(word)
	case o.view != 0:
		err = q.nodes(word)
	default:
		err = q.show(words)
	}
	if s.JSON && (err == nil || len(q.json) > 0) {
		err = errors.Join(s.WriteJSON(q.json), err)
	}
	return errors.Join(err, q.cut)
}

// ask queries all records that are equal to a in the fields of mask, and returns their bytes. If the
// response was truncated, it returns the records that have arrived.
func (q *asking) ask(a mad.Attribute, modifier uint32, mask mad.ComponentMask) ([][]byte, error) {
	to, err := q.c.SM()
	if err != nil {
		return nil, err
	}
	layout := mad.LayoutOf(a)
	d := mad.New(mad.ClassSA, mad.GetTable, layout.AttrID, modifier)
	d.SetSMKey(q.smKey)
	d.SetComponentMask(mask)
	if err := mad.Marshal(d.Data(), a); err != nil {
		return nil, err
	}
	m, err := q.c.Do(q.ctx, &mad.Message{Addr: to, Data: d})
	if err != nil {
		return nil, err
	}
	if err := m.Data.Err(); err != nil {
		return nil, err
	}
	records, err := fabric.Records(m.Data)
	if errors.Is(err, fabric.ErrTruncated) {
		q.cut, err = err, nil
	}
	if len(records) > 0 && len(records[0]) < layout.Size {
		return nil, fmt.Errorf("the subnet manager sends %ss of %d bytes, which need %d", layout.Name, len(records[0]), layout.Size)
	}
	return records, err
}

// print prints a record.
func (q *asking) print(r *saRecord, raw []byte) error {
	a := mad.FindLayout(mad.ClassSA, r.id).New()
	if err := mad.Unmarshal(raw, a); err != nil {
		return err
	}
	if q.JSON {
		q.json = append(q.json, rawJSON(mad.AppendJSON(nil, a, &mad.DumpOptions{ShowKeys: q.showKeys, Omit: q.secret})))
		return nil
	}
	t := &recordText{width: r.width, raw: raw, q: q}
	t.WriteString(r.title + "\n")
	r.text(t, a)
	return q.Printf("%s", t.String())
}

// secret reports whether a field is hidden without -K.
func (q *asking) secret(f *mad.Field) bool {
	return !q.showKeys && (f.Name == "ServRecKey" || f.Name == "InformQPN")
}

// show prints the records that match the query.
func (q *asking) show(words []string) error {
	r := q.o.kind
	a, mask, err := r.ask(q, words)
	if err != nil {
		return err
	}
	records, err := q.ask(a, 0, mask)
	if err != nil {
		return err
	}
	for _, raw := range records {
		if err := q.print(r, raw); err != nil {
			return err
		}
	}
	return nil
}

// lidOf returns the LID that a word means. The word is a LID or the name of a node.
func (q *asking) lidOf(word string) (uint16, error) {
	if word == "" {
		return 0, nil
	}
	if c := word[0] | 0x20; c < 'a' || c > 'z' {
		n, err := strconv.ParseUint(word, 0, 16)
		if err != nil || n == 0 {
			return 0, cli.UsageError{Text: fmt.Sprintf("invalid LID %q: expected 1 to 0xffff, or the name of a node", word)}
		}
		return uint16(n), nil
	}
	if q.byName == nil {
		records, err := q.ask(&mad.NodeRecord{}, 0, 0)
		if err != nil {
			return 0, err
		}
		q.byName = make(map[string]uint16)
		for _, raw := range records {
			var n mad.NodeRecord
			if err := mad.Unmarshal(raw, &n); err != nil {
				return 0, err
			}
			if _, ok := q.byName[n.Description.Text]; !ok {
				q.byName[n.Description.Text] = n.LID
			}
		}
	}
	lid, ok := q.byName[word]
	if !ok {
		return 0, fmt.Errorf("no node is named %q", word)
	}
	return lid, nil
}

// part is a number behind a LID of the command line: the field of the record that has it.
type part struct {
	mask mad.ComponentMask
	most int // its highest value
}

// place parses LID/NUMBER/NUMBER with those numbers that the record has. Missing numbers are -1.
func (q *asking) place(words []string, i int, parts ...part) (lid uint16, first, second int, err error) {
	if i >= len(words) {
		return 0, -1, -1, nil
	}
	given := strings.Split(words[i], "/")
	if len(given) > 1+len(parts) {
		return 0, 0, 0, cli.Expected(words[i], "LID"+strings.Repeat("/NUMBER", len(parts)))
	}
	if lid, err = q.lidOf(given[0]); err != nil {
		return 0, 0, 0, err
	}
	numbers := []int{-1, -1}
	for k, word := range given[1:] {
		if word == "" {
			continue
		}
		n, err := strconv.ParseUint(word, 0, 16)
		if err != nil || int(n) > parts[k].most {
			return 0, 0, 0, cli.UsageError{Text: fmt.Sprintf("%q: invalid number %q: expected a number from 0 to %d", words[i], word, parts[k].most)}
		}
		numbers[k] = int(n)
	}
	return lid, numbers[0], numbers[1], nil
}

// placed returns the ask function of a record that begins with a LID and up to two numbers.
func placed(make func(lid uint16, first, second int) mad.Attribute, parts ...part) func(*asking, []string) (mad.Attribute, mad.ComponentMask, error) {
	return func(q *asking, words []string) (mad.Attribute, mad.ComponentMask, error) {
		lid, first, second, err := q.place(words, 0, parts...)
		if err != nil {
			return nil, 0, err
		}
		var mask mad.ComponentMask
		if lid != 0 {
			mask |= mad.MaskLID
		}
		for i, n := range []int{first, second} {
			if n >= 0 {
				mask |= parts[i].mask
			}
		}
		return make(lid, max(first, 0), max(second, 0)), mask, nil
	}
}

// criteria collects the fields that options set.
type criteria struct {
	o    *saOptions
	mask mad.ComponentMask
}

func (c *criteria) value(name string, mask mad.ComponentMask) uint64 {
	v, ok := c.o.given[name]
	if ok {
		c.mask |= mask
	}
	return v
}

func (c *criteria) gid(g verbs.GID, mask mad.ComponentMask) verbs.GID {
	if g != (verbs.GID{}) {
		c.mask |= mask
	}
	return g
}

func askPath(q *asking, _ []string) (mad.Attribute, mad.ComponentMask, error) {
	for name, word := range map[string]string{"slid": q.o.src, "dlid": q.o.dst} {
		if word == "" {
			continue
		}
		lid, err := q.lidOf(word)
		if err != nil {
			return nil, 0, err
		}
		q.o.set(name, uint64(lid))
	}
	c := &criteria{o: q.o}
	p := &mad.PathRecord{
		ServiceID: c.value("service_id", mad.MaskPathServiceID), SGID: c.gid(q.o.sgid, mad.MaskPathSGID), DGID: c.gid(q.o.dgid, mad.MaskPathDGID),
		SLID: uint16(c.value("slid", mad.MaskPathSLID)), DLID: uint16(c.value("dlid", mad.MaskPathDLID)),
		FlowLabel: uint32(c.value("flow_label", 1<<8)), HopLimit: uint8(c.value("hop_limit", 1<<9)), TClass: uint8(c.value("tclass", 1<<10)),
		Reversible: c.value("reversible", mad.MaskPathReversible) != 0, NumPaths: uint8(c.value("numb_path", mad.MaskPathNumPaths)),
		PKey: uint16(c.value("pkey", mad.MaskPathPKey)), QoSClass: uint16(c.value("qos_class", mad.MaskPathQoSClass)), SL: uint8(c.value("sl", mad.MaskPathSL)),
	}
	mtu, rate, life := c.value("mtu", mad.MaskPathMTU), c.value("rate", mad.MaskPathRate), c.value("pkt_lifetime", mad.MaskPathLife)
	p.MTUSelector, p.MTU = mad.Selector(mtu>>6), verbs.MTU(mtu&0x3f)
	p.RateSelector, p.Rate = mad.Selector(rate>>6), uint8(rate&0x3f)
	p.LifeSelector, p.PacketLifeTime = mad.Selector(life>>6), uint8(life&0x3f)
	return p, c.mask, nil
}

func askMember(q *asking, _ []string) (mad.Attribute, mad.ComponentMask, error) {
	c := &criteria{o: q.o}
	m := &mad.MCMemberRecord{
		MGID: c.gid(q.o.mgid, mad.MaskMulticastMGID), PortGID: c.gid(q.o.gid, mad.MaskMulticastPortGID),
		MLID: uint16(c.value("mlid", mad.MaskMulticastMLID)), QKey: uint32(c.value("qkey", mad.MaskMulticastQKey)), TClass: uint8(c.value("tclass", 1<<6)),
		PKey: uint16(c.value("pkey", mad.MaskMulticastPKey)), SL: uint8(c.value("sl", 1<<12)), FlowLabel: uint32(c.value("flow_label", 1<<13)),
		HopLimit: uint8(c.value("hop_limit", 1<<14)), Scope: uint8(c.value("scope", 1<<15)), JoinState: uint8(c.value("join_state", mad.MaskMulticastJoinState)),
		ProxyJoin: c.value("proxy_join", 1<<17) != 0,
	}
	mtu, rate, life := c.value("mtu", 3<<4), c.value("rate", 3<<8), c.value("pkt_lifetime", 3<<10)
	m.MTUSelector, m.MTU = mad.Selector(mtu>>6), verbs.MTU(mtu&0x3f)
	m.RateSelector, m.Rate = mad.Selector(rate>>6), uint8(rate&0x3f)
	m.LifeSelector, m.PacketLifeTime = mad.Selector(life>>6), uint8(life&0x3f)
	return m, c.mask, nil
}

func askLink(q *asking, words []string) (mad.Attribute, mad.ComponentMask, error) {
	from, fromPort, _, err := q.place(words, 0, part{most: math.MaxUint8})
	if err != nil {
		return nil, 0, err
	}
	to, toPort, _, err := q.place(words, 1, part{most: math.MaxUint8})
	if err != nil {
		return nil, 0, err
	}
	var mask mad.ComponentMask
	for _, c := range []struct {
		on   bool
		mask mad.ComponentMask
	}{{from != 0, mad.MaskLID}, {fromPort >= 0, mad.MaskLinkFromPort}, {to != 0, mad.MaskLinkToLID}, {toPort >= 0, mad.MaskLinkToPort}} {
		if c.on {
			mask |= c.mask
		}
	}
	return &mad.LinkRecord{FromLID: from, FromPort: uint8(max(fromPort, 0)), ToLID: to, ToPort: uint8(max(toPort, 0))}, mask, nil
}

// saRecords is set by init, because some of its functions refer to it.
var saRecords []saRecord

func init() {
	saRecords = []saRecord{
		{long: "ClassPortInfo", short: "CPI"},
		{"NodeRecord", "NR", mad.AttrNodeRecord, "NodeRecord dump:", 24, placed(func(lid uint16, _, _ int) mad.Attribute { return &mad.NodeRecord{LID: lid} }), textNode},
		{"PortInfoRecord", "PIR", mad.AttrPortInfoRecord, "PortInfoRecord dump:", 24, placed(func(lid uint16, port, options int) mad.Attribute {
			return &mad.PortInfoRecord{LID: lid, PortNum: uint8(port), Options: uint8(options)}
		}, part{mad.MaskPortInfoPortNum, math.MaxUint8}, part{mad.MaskPortInfoOptions, math.MaxUint8}), textPortInfo},
		{"SL2VLTableRecord", "SL2VL", mad.AttrSL2VLTableRecord, "SL2VLTableRecord dump:", 27, placed(func(lid uint16, in, out int) mad.Attribute {
			return &mad.SL2VLTableRecord{LID: lid, InPort: uint8(in), OutPort: uint8(out)}
		}, part{mad.MaskSL2VLInPort, math.MaxUint8}, part{mad.MaskSL2VLOutPort, math.MaxUint8}), textSL2VL},
		{"PKeyTableRecord", "PKTR", mad.AttrPKeyTableRecord, "PKeyTableRecord dump:", 27, placed(func(lid uint16, port, block int) mad.Attribute {
			return &mad.PKeyTableRecord{LID: lid, PortNum: uint8(port), Block: uint16(block)}
		}, part{mad.MaskPKeyPortNum, math.MaxUint8}, part{mad.MaskTableBlock, math.MaxUint16}), textPKeys},
		{"VLArbitrationTableRecord", "VLAR", mad.AttrVLArbTableRecord, "VLArbTableRecord dump:", 27, placed(func(lid uint16, port, block int) mad.Attribute {
			return &mad.VLArbTableRecord{LID: lid, OutPort: uint8(port), Block: uint8(block)}
		}, part{mad.MaskVLArbOutPort, math.MaxUint8}, part{mad.MaskVLArbBlock, math.MaxUint8}), textVLArb},
		{"InformInfoRecord", "IIR", mad.AttrInformInfoRecord, "InformInfoRecord dump:", 24, func(_ *asking, words []string) (mad.Attribute, mad.ComponentMask, error) {
			if len(words) == 0 {
				return &mad.InformInfoRecord{}, 0, nil
			}
			g, err := gidWord(words[0])
			return &mad.InformInfoRecord{SubscriberGID: g}, 1, err
		}, textInform},
		{"LinkRecord", "LR", mad.AttrLinkRecord, "LinkRecord dump:", 27, askLink, func(t *recordText, a mad.Attribute) {
			r := a.(*mad.LinkRecord)
			t.line("FromLID", "%d", r.FromLID)
			t.line("FromPort", "%d", r.FromPort)
			t.line("ToPort", "%d", r.ToPort)
			t.line("ToLID", "%d", r.ToLID)
		}},
		{"ServiceRecord", "SR", mad.AttrServiceRecord, "ServiceRecord dump:", 24, func(*asking, []string) (mad.Attribute, mad.ComponentMask, error) {
			return &mad.ServiceRecord{}, 0, nil
		}, textService},
		{"PathRecord", "PR", mad.AttrPathRecord, "PathRecord dump:", 24, askPath, textPath},
		{"MCMemberRecord", "MCMR", mad.AttrMCMemberRecord, "MCMember Record dump:", 24, askMember, textMember},
		{"LFTRecord", "LFTR", mad.AttrLFTRecord, "LFT Record dump:", 27, placed(func(lid uint16, block, _ int) mad.Attribute {
			return &mad.LFTRecord{LID: lid, Block: uint16(block)}
		}, part{mad.MaskTableBlock, math.MaxUint16}), textLFT},
		{"MFTRecord", "MFTR", mad.AttrMFTRecord, "MFT Record dump:", 27, placed(func(lid uint16, position, block int) mad.Attribute {
			return &mad.MFTRecord{LID: lid, Position: uint8(position), Block: uint16(block)}
		}, part{mad.MaskMFTPosition, 15}, part{mad.MaskMFTBlock, 0x1ff}), textMFT},
		{"GUIDInfoRecord", "GIR", mad.AttrGUIDInfoRecord, "GUIDInfo Record dump:", 27, placed(func(lid uint16, block, _ int) mad.Attribute {
			return &mad.GUIDInfoRecord{LID: lid, Block: uint8(block)}
		}, part{mad.MaskTableBlock, math.MaxUint8}), func(t *recordText, a mad.Attribute) {
			r := a.(*mad.GUIDInfoRecord)
			t.line("LID", "%d", r.LID)
			t.line("Block", "%d", r.Block)
			for i, g := range r.GUIDInfo.GUIDs {
				t.line(fmt.Sprintf("GUID %d", i), "0x%016x", uint64(g))
			}
		}},
		{"SwitchInfoRecord", "SWIR", mad.AttrSwitchInfoRecord, "SwitchInfoRecord dump:", 40, placed(func(lid uint16, _, _ int) mad.Attribute { return &mad.SwitchInfoRecord{LID: lid} }), textSwitch},
		{"SMInfoRecord", "SMIR", mad.AttrSMInfoRecord, "SMInfoRecord dump:", 22, placed(func(lid uint16, _, _ int) mad.Attribute { return &mad.SMInfoRecord{LID: lid} }), textSM},
	}
}

func textNode(t *recordText, a mad.Attribute) {
	r := a.(*mad.NodeRecord)
	n := &r.NodeInfo
	kind := map[mad.NodeType]string{mad.NodeCA: "Channel Adapter", mad.NodeSwitch: "Switch", mad.NodeRouter: "Router"}[n.Type]
	if kind == "" {
		kind = "UNKNOWN"
	}
	t.line("lid", "%d", r.LID)
	t.line("reserved", "0x%X", t.u16(2))
	t.line("base_version", "0x%X", n.BaseVersion)
	t.line("class_version", "0x%X", n.ClassVersion)
	t.line("node_type", "%s", kind)
	t.line("num_ports", "%d", n.NumPorts)
	t.line("sys_guid", "0x%016x", uint64(n.SystemGUID))
	t.line("node_guid", "0x%016x", uint64(n.NodeGUID))
	t.line("port_guid", "0x%016x", uint64(n.PortGUID))
	t.line("partition_cap", "0x%X", n.PartitionCap)
	t.line("device_id", "0x%X", n.DeviceID)
	t.line("revision", "0x%X", n.Revision)
	t.line("port_num", "%d", n.LocalPort)
	t.line("vendor_id", "0x%X", n.VendorID)
	t.line("NodeDescription", "%s", name(t.q.names, n.NodeGUID, r.Description.Text))
}

func textPath(t *recordText, a mad.Attribute) {
	t.line("service_id", "0x%016x", t.u64(0))
	t.line("dgid", "%s", t.gid(8))
	t.line("sgid", "%s", t.gid(24))
	t.line("dlid", "%d", t.u16(40))
	t.line("slid", "%d", t.u16(42))
	t.line("hop_flow_raw", "0x%X", t.u32(44))
	t.line("tclass", "0x%X", t.u8(48))
	t.line("num_path_revers", "0x%X", t.u8(49))
	t.line("pkey", "0x%X", t.u16(50))
	t.line("qos_class", "0x%X", a.(*mad.PathRecord).QoSClass)
	t.line("sl", "0x%X", a.(*mad.PathRecord).SL)
	t.line("mtu", "0x%X", t.u8(54))
	t.line("rate", "0x%X", t.u8(55))
	t.line("pkt_life", "0x%X", t.u8(56))
	t.line("preference", "0x%X", t.u8(57))
	t.line("resv2", "0x%X", t.raw[58:64])
}

func textPortInfo(t *recordText, a mad.Attribute) {
	r := a.(*mad.PortInfoRecord)
	t.WriteString("\tRID\n")
	t.line("EndPortLid", "%d", r.LID)
	t.line("PortNum", "%d", r.PortNum)
	t.line("Options", "0x%x", r.Options)
	t.WriteString("\tPortInfo dump:\n")
	for line := range strings.Lines(mad.Dump(&r.PortInfo, &mad.DumpOptions{ShowKeys: t.q.showKeys})) {
		if !strings.HasPrefix(line, "\t") { // one of several lines, as for CapMask
			line = "\t\t" + line
		}
		t.WriteString(line)
	}
}

func textSL2VL(t *recordText, a mad.Attribute) {
	r := a.(*mad.SL2VLTableRecord)
	t.line("LID", "%d", r.LID)
	t.line("InPort", "%d", r.InPort)
	t.line("OutPort", "%d", r.OutPort)
	t.WriteString("\t\tSL: 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|\n\t\tVL:")
	for _, vl := range r.Table.VL {
		fmt.Fprintf(t, "%2d|", vl)
	}
	t.WriteByte('\n')
}

func textPKeys(t *recordText, a mad.Attribute) {
	r := a.(*mad.PKeyTableRecord)
	t.line("LID", "%d", r.LID)
	t.line("Port", "%d", r.PortNum)
	t.line("Block", "%d", r.Block)
	t.WriteString("\t\tPKey Table:\n")
	for i := 0; i < len(r.Table.PKeys); i += 8 {
		t.WriteString("\t\t")
		for k, key := range r.Table.PKeys[i : i+8] {
			if k > 0 {
				t.WriteByte(' ')
			}
			fmt.Fprintf(t, "0x%04x", key)
		}
		t.WriteByte('\n')
	}
	t.WriteByte('\n')
}

func textVLArb(t *recordText, a mad.Attribute) {
	r := a.(*mad.VLArbTableRecord)
	t.line("LID", "%d", r.LID)
	t.line("Port", "%d", r.OutPort)
	t.line("Block", "%d", r.Block)
	for i := 0; i < len(r.Table.Entries); i += 16 {
		t.WriteString("\t\tVL    :")
		for k := range 16 {
			fmt.Fprintf(t, "%2d|", t.u8(8+2*(i+k)))
		}
		t.WriteString("\n\t\tWeight:")
		for k := range 16 {
			fmt.Fprintf(t, "%2d|", t.u8(9+2*(i+k)))
		}
		t.WriteByte('\n')
	}
}

func textLFT(t *recordText, a mad.Attribute) {
	r := a.(*mad.LFTRecord)
	t.line("LID", "%d", r.LID)
	t.line("Block", "%d", r.Block)
	t.WriteString("\t\tLFT:\n\t\tLID\tPort Number\n")
	for i, port := range r.Table.Ports {
		fmt.Fprintf(t, "\t\t%d\t%d\n", int(r.Block)*64+i, port)
	}
	t.WriteByte('\n')
}

func textMFT(t *recordText, a mad.Attribute) {
	r := a.(*mad.MFTRecord)
	t.line("LID", "%d", r.LID)
	t.line("Position", "%d", r.Position)
	t.line("Block", "%d", r.Block)
	t.WriteString("\t\tMFT:\n\t\tMLID\tPort Mask\n")
	for i, mask := range r.Table.Ports {
		fmt.Fprintf(t, "\t\t0x%04x\t0x%04x\n", int(mad.MinMulticast)+int(r.Block)*32+i, mask)
	}
	t.WriteByte('\n')
}

func textSwitch(t *recordText, a mad.Attribute) {
	r := a.(*mad.SwitchInfoRecord)
	sw := &r.SwitchInfo
	t.WriteString("\t\tRID\n")
	t.line("LID", "%d", r.LID)
	t.WriteString("\t\tSwitchInfo dump:\n")
	t.line("LinearFDBCap", "0x%X", sw.LinearFDBCap)
	t.line("RandomFDBCap", "0x%X", sw.RandomFDBCap)
	t.line("MulticastFDBCap", "0x%X", sw.MulticastFDBCap)
	t.line("LinearFDBTop", "0x%X", sw.LinearFDBTop)
	t.line("DefaultPort", "%d", sw.DefaultPort)
	t.line("DefaultMulticastPrimaryPort", "%d", sw.DefaultMulticastPrimaryPort)
	t.line("DefaultMulticastNotPrimaryPort", "%d", sw.DefaultMulticastNotPrimaryPort)
	t.line("LifeTimeValue/PortStateChange/OpSL2VL", "0x%X", t.u8(4+11))
	t.line("LIDsPerPort", "0x%X", sw.LIDsPerPort)
	t.line("PartitionEnforcementCap", "0x%X", sw.PartitionEnforceCap)
	t.line("flags", "0x%X", t.u8(4+16))
	const multicastTop = 1 << 3
	if t.q.agent.CapMask2&multicastTop != 0 {
		t.line("MulticastFDBTop", "0x%X", sw.MulticastFDBTop)
	}
}

func textSM(t *recordText, a mad.Attribute) {
	r := a.(*mad.SMInfoRecord)
	t.WriteString("\t\tRID\n")
	t.line("LID", "%d", r.LID)
	t.WriteString("\t\tSMInfo dump:\n")
	t.line("GUID", "0x%016x", uint64(r.SMInfo.GUID))
	t.line("SM_Key", "0x%016x", r.SMInfo.Key)
	t.line("ActCount", "%d", r.SMInfo.Activity)
	t.line("Priority", "%d", r.SMInfo.Priority)
	t.line("SMState", "%d", r.SMInfo.State)
}

func textMember(t *recordText, a mad.Attribute) {
	m := a.(*mad.MCMemberRecord)
	t.line("MGID", "%s", t.gid(0))
	t.line("PortGid", "%s", t.gid(16))
	t.line("qkey", "0x%x", m.QKey)
	t.line("mlid", "0x%x", m.MLID)
	t.line("mtu", "0x%x", t.u8(38))
	t.line("TClass", "0x%x", m.TClass)
	t.line("pkey", "0x%x", m.PKey)
	t.line("rate", "0x%x", t.u8(42))
	t.line("pkt_life", "0x%x", t.u8(43))
	t.line("SL", "0x%x", m.SL)
	t.line("FlowLabel", "0x%x", m.FlowLabel)
	t.line("HopLimit", "0x%x", m.HopLimit)
	t.line("Scope", "0x%x", m.Scope)
	t.line("JoinState", "0x%x", m.JoinState)
	t.line("ProxyJoin", "0x%x", t.u8(49))
}

func textInform(t *recordText, a mad.Attribute) {
	r := a.(*mad.InformInfoRecord)
	i := &r.InformInfo
	vendor := "node_type"
	t.WriteString("\t\tRID\n")
	t.line("SubscriberGID", "%s", t.gid(0))
	t.line("SubscriberEnum", "0x%X", r.Enum)
	t.WriteString("\t\tInformInfo dump:\n")
	t.line("gid", "%s", t.gid(24))
	t.line("lid_range_begin", "%d", i.LIDRangeBegin)
	t.line("lid_range_end", "%d", i.LIDRangeEnd)
	t.line("is_generic", "0x%X", i.Generic)
	t.line("subscribe", "0x%X", i.Subscribe)
	t.line("trap_type", "0x%X", i.Type)
	if i.Generic != 0 {
		t.line("trap_num", "%d", i.TrapNumber)
	} else {
		vendor = "vendor_id"
		t.line("dev_id", "0x%X", i.TrapNumber)
	}
	if t.q.showKeys {
		t.line("qpn", "0x%06X", i.QPN)
	} else {
		t.line("qpn", "<not displayed>")
	}
	t.line("resp_time_val", "0x%X", i.RespTime)
	t.line(vendor, "0x%06X", i.ProducerType)
}

func textService(t *recordText, a mad.Attribute) {
	r := a.(*mad.ServiceRecord)
	t.line("ServiceID", "0x%016x", r.ID)
	t.line("ServiceGID", "%s", t.gid(8))
	t.line("ServiceP_Key", "0x%X", r.PKey)
	t.line("ServiceLease", "0x%X", r.Lease)
	key := "<not displayed>"
	if t.q.showKeys {
		key = fmt.Sprintf("0x%x", r.Key)
	}
	t.line("ServiceKey", "%s", key)
	t.line("ServiceName", "%s", cli.Printable(r.Name))
	for i, v := range r.Data8 {
		t.line(fmt.Sprintf("ServiceData8.%d", i+1), "0x%X", v)
	}
	for i, v := range r.Data16 {
		t.line(fmt.Sprintf("ServiceData16.%d", i+1), "0x%X", v)
	}
	for i, v := range r.Data32 {
		t.line(fmt.Sprintf("ServiceData32.%d", i+1), "0x%X", v)
	}
	for i, v := range r.Data64 {
		t.line(fmt.Sprintf("ServiceData64.%d", i+1), "0x%016x", v)
	}
}

// showAgent prints the capabilities of subnet administration.
func (q *asking) showAgent() error {
	i := &q.agent
	if q.JSON {
		return q.WriteJSON(rawJSON(mad.AppendJSON(nil, i, nil)))
	}
	raw := make([]byte, mad.LayoutOf(i).Size)
	if err := mad.Marshal(raw, i); err != nil {
		return err
	}
	t := &recordText{width: 25, raw: raw, q: q}
	t.WriteString("SA ClassPortInfo:\n")
	t.line("Base version", "%d", i.BaseVersion)
	t.line("Class version", "%d", i.ClassVersion)
	t.line("Capability mask", "0x%04X", i.CapMask)
	t.line("Capability mask 2", "0x%08X", i.CapMask2)
	t.line("Response time value", "0x%02X", i.RespTime)
	t.line("Redirect GID", "%s", t.gid(8))
	t.line("Redirect TC/SL/FL", "0x%08X", t.u32(24))
	t.line("Redirect LID", "%d", i.RedirectLID)
	t.line("Redirect PKey", "0x%04X", i.RedirectPKey)
	t.line("Redirect QP", "0x%08X", i.RedirectQP)
	t.line("Redirect QKey", "0x%08X", i.RedirectQKey)
	t.line("Trap GID", "%s", t.gid(40))
	t.line("Trap TC/SL/FL", "0x%08X", t.u32(56))
	t.line("Trap LID", "%d", i.TrapLID)
	t.line("Trap PKey", "0x%04X", i.TrapPKey)
	t.line("Trap HL/QP", "0x%08X", t.u32(64))
	t.line("Trap QKey", "0x%08X", i.TrapQKey)
	return q.Printf("%s", t.String())
}

// managers prints the ports that have a subnet manager according to their CapMask, and those where it
// is disabled.
func (q *asking) managers() error {
	const isSM, disabled, byBits = 1 << 1, 1 << 10, 1 << 31
	for i, bit := range []uint32{isSM, disabled} {
		records, err := q.ask(&mad.PortInfoRecord{PortInfo: mad.PortInfo{CapMask: bit}}, byBits, mad.MaskPortInfoCapMask)
		if err != nil {
			return err
		}
		if !q.JSON {
			if err := q.Printf("%s", []string{"IsSM ports\n", "\nIsSMdisabled ports\n"}[i]); err != nil {
				return err
			}
		}
		for _, raw := range records {
			var r mad.PortInfoRecord
			if err := mad.Unmarshal(raw, &r); err != nil {
				return err
			}
			if q.JSON {
				q.json = append(q.json, table.Table{
					{Key: "lid", Value: uint32(r.LID)}, {Key: "port", Value: uint32(r.PortNum)}, {Key: "disabled", Value: bit == disabled},
					{Key: "sm_lid", Value: uint32(r.PortInfo.SMLID)}, {Key: "capability_mask", Value: fmt.Sprintf("0x%x", r.PortInfo.CapMask)},
				})
				continue
			}
			t := &recordText{width: 24, raw: raw, q: q}
			t.WriteString("PortInfoRecord dump:\n")
			t.line("EndPortLid", "%d", r.LID)
			t.line("PortNum", "%d", r.PortNum)
			t.line("base_lid", "%d", r.PortInfo.LID)
			t.line("master_sm_base_lid", "%d", r.PortInfo.SMLID)
			t.line("capability_mask", "0x%X", r.PortInfo.CapMask)
			if err := q.Printf("%s", t.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// groups prints the multicast groups.
func (q *asking) groups() error {
	records, err := q.ask(&mad.MCMemberRecord{}, 0, 0)
	if err != nil {
		return err
	}
	r := *findRecord("MCMR")
	r.title = "MCMemberRecord group dump:"
	r.text = func(t *recordText, a mad.Attribute) {
		m := a.(*mad.MCMemberRecord)
		t.line("MGID", "%s", t.gid(0))
		t.line("Mlid", "0x%X", m.MLID)
		t.line("Mtu", "0x%X", t.u8(38))
		t.line("pkey", "0x%X", m.PKey)
		t.line("Rate", "0x%X", t.u8(42))
		t.line("SL", "0x%X", m.SL)
	}
	for _, raw := range records {
		if err := q.print(&r, raw); err != nil {
			return err
		}
	}
	return nil
}

// members prints the members of multicast groups, with the names of their nodes.
func (q *asking) members(word string) error {
	var mlid uint64
	if word != "" {
		var err error
		if mlid, err = strconv.ParseUint(word, 0, 16); err != nil {
			return cli.UsageError{Text: fmt.Sprintf("invalid multicast LID %q: expected a number such as 0xc000", word)}
		}
	}
	records, err := q.ask(&mad.MCMemberRecord{}, 0, 0)
	if err != nil {
		return err
	}
	nodes, err := q.ask(&mad.NodeRecord{}, 0, 0)
	if err != nil {
		return err
	}
	byGUID := make(map[verbs.GUID]string)
	for _, raw := range nodes {
		var n mad.NodeRecord
		if err := mad.Unmarshal(raw, &n); err != nil {
			return err
		}
		if _, ok := byGUID[n.NodeInfo.PortGUID]; !ok {
			byGUID[n.NodeInfo.PortGUID] = name(q.names, n.NodeInfo.NodeGUID, n.Description.Text)
		}
	}
	for _, raw := range records {
		var m mad.MCMemberRecord
		if err := mad.Unmarshal(raw, &m); err != nil {
			return err
		}
		if word != "" && uint64(m.MLID) != mlid {
			continue
		}
		node, ok := byGUID[verbs.GUID(binary.BigEndian.Uint64(m.PortGID[8:]))]
		if !ok {
			node = "<unknown>"
		}
		t := &recordText{width: 24, raw: raw, q: q}
		switch {
		case q.JSON:
			q.json = append(q.json, table.Table{
				{Key: "mgid", Value: t.gid(0)}, {Key: "mlid", Value: uint32(m.MLID)}, {Key: "port_gid", Value: t.gid(16)},
				{Key: "join_state", Value: uint32(m.JoinState)}, {Key: "node", Value: node},
			})
			continue
		case word != "":
			t.line("PortGid", "%s (%s)", t.gid(16), node)
		default:
			t.WriteString("MCMemberRecord member dump:\n")
			t.line("MGID", "%s", t.gid(0))
			t.line("Mlid", "0x%X", m.MLID)
			t.line("PortGid", "%s", t.gid(16))
			t.line("ScopeState", "0x%X", t.u8(48))
			t.line("ProxyJoin", "0x%X", t.u8(49))
			t.line("NodeDescription", "%s", node)
		}
		if err := q.Printf("%s", t.String()); err != nil {
			return err
		}
	}
	return nil
}

// nodes prints nodes in the format that the options select.
func (q *asking) nodes(word string) error {
	var wanted uint64
	if q.o.view == viewByLID || q.o.view == viewByGUID {
		var err error
		if wanted, err = strconv.ParseUint(word, 0, 64); err != nil || wanted == 0 {
			return cli.UsageError{Text: fmt.Sprintf("%q: expected a LID for -O, a port GUID for -U", word)}
		}
	}
	records, err := q.ask(&mad.NodeRecord{}, 0, 0)
	if err != nil {
		return err
	}
	if q.o.view == viewList && !q.JSON {
		if err := q.Printf("   LID \"name\"\n================\n"); err != nil {
			return err
		}
	}
	for _, raw := range records {
		var n mad.NodeRecord
		if err := mad.Unmarshal(raw, &n); err != nil {
			return err
		}
		text := name(q.names, n.NodeInfo.NodeGUID, n.Description.Text)
		matches := word == "" || word == n.Description.Text || word == text
		line := ""
		switch q.o.view {
		case viewList:
			matches, line = n.NodeInfo.Type == mad.NodeCA, fmt.Sprintf("%6d  \"%s\"", n.LID, text)
		case viewByLID:
			matches, line = uint64(n.LID) == wanted, text
		case viewByGUID:
			matches, line = uint64(n.NodeInfo.PortGUID) == wanted, text
		case viewLIDs, viewLID:
			line = strconv.Itoa(int(n.LID))
		case viewGUIDs:
			line = guid(n.NodeInfo.PortGUID)
		}
		if !matches {
			continue
		}
		if q.JSON || line == "" {
			err = q.print(findRecord("NR"), raw)
		} else {
			err = q.Printf("%s\n", line)
		}
		if err != nil || q.o.view == viewLID {
			return err
		}
	}
	return nil
}
