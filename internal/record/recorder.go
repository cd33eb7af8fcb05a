package record

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Recorder writes a recording. Its methods may be called concurrently.
type Recorder struct {
	mu       sync.Mutex
	w        io.Writer
	openings int
	err      error
}

// New returns a Recorder that writes to w.
func New(w io.Writer) *Recorder { return &Recorder{w: w} }

// decoders has a decoder for each driver with a model.
var decoders = map[uint32]func(*fakeverbs.Crossing) (*line, bool){
	abi.RDMA_DRIVER_EFA: efaLine, abi.RDMA_DRIVER_ERDMA: erdmaLine, abi.RDMA_DRIVER_MLX5: mlx5Line,
	abi.RDMA_DRIVER_RXE: rxeLine, abi.RDMA_DRIVER_SIW: siwLine,
}

// Attach records k's requests and crossings. An observer that k already has is called first, so its
// changes are recorded too. Call Attach before k is used.
func (r *Recorder) Attach(k *fakeverbs.Kernel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.openings++
	o := &opening{r: r, n: r.openings, decode: decoders[k.Driver()]}
	before := k.Cross
	k.Cross = func(c *fakeverbs.Crossing) {
		if before != nil {
			before(c)
		}
		if l, ok := o.decode(c); ok {
			o.write(l)
		}
	}
	k.Asked = func(call string, q *ioctl.Request) { o.write(requestLine(k.Driver(), call, q)) }
}

// Err returns the first error of writing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// opening is an open file, with a number of its own.
type opening struct {
	r      *Recorder
	n      int
	decode func(*fakeverbs.Crossing) (*line, bool)
}

func (o *opening) write(l *line) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if _, err := fmt.Fprintf(o.r.w, "%d %s\n", o.n, l.text()); err != nil && o.r.err == nil {
		o.r.err = err
	}
}

// field is a field of a call's private bytes: its name with a mask in front, and its size.
type field struct {
	name string
	size int
}

// callLine decodes the private bytes of a call. It returns nil for a call without any.
func callLine(c *fakeverbs.Crossing, calls map[string][]field) (*line, bool) {
	if len(c.Bytes) == 0 {
		return nil, false
	}
	l := &line{stream: "calls", kind: c.Call + " " + string(c.Kind)}
	b := c.Bytes
	for _, f := range calls[l.kind] {
		if len(b) < f.size {
			break
		}
		v := little(b[:f.size])
		b = b[f.size:]
		switch mask, name := f.name[0], f.name[1:]; {
		case mask == '@' && v != 0:
			l.addr(name, v)
		case mask == '@':
			l.num(name, 0)
		case mask == '#':
			l.key(name, uint32(v))
		case mask == '%': // a number of an object's
			l.add(name, fmt.Sprintf("%%%c%d", name[0], v))
		default:
			l.num(f.name, v)
		}
	}
	if strings.Trim(string(b), "\x00") != "" {
		l.add("more", fmt.Sprintf("%x", b))
	}
	l.kind = strings.ReplaceAll(l.kind, " ", ".")
	return l, true
}

// little returns a number of up to 8 bytes.
func little(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}

// inputs are the structures that the commands of INVOKE_WRITE begin with. Arrays follow some of them.
var inputs = map[uint32]reflect.Type{
	abi.IB_USER_VERBS_CMD_QUERY_DEVICE:                     reflect.TypeFor[abi.IbUverbsQueryDevice](),
	abi.IB_USER_VERBS_CMD_ALLOC_PD:                         reflect.TypeFor[abi.IbUverbsAllocPd](),
	abi.IB_USER_VERBS_CMD_CREATE_AH:                        reflect.TypeFor[abi.IbUverbsCreateAh](),
	abi.IB_USER_VERBS_CMD_REG_MR:                           reflect.TypeFor[abi.IbUverbsRegMr](),
	abi.IB_USER_VERBS_CMD_REREG_MR:                         reflect.TypeFor[abi.IbUverbsReregMr](),
	abi.IB_USER_VERBS_CMD_ALLOC_MW:                         reflect.TypeFor[abi.IbUverbsAllocMw](),
	abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:              reflect.TypeFor[abi.IbUverbsCreateCompChannel](),
	abi.IB_USER_VERBS_CMD_RESIZE_CQ:                        reflect.TypeFor[abi.IbUverbsResizeCq](),
	abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:                    reflect.TypeFor[abi.IbUverbsReqNotifyCq](),
	abi.IB_USER_VERBS_CMD_QUERY_QP:                         reflect.TypeFor[abi.IbUverbsQueryQp](),
	abi.IB_USER_VERBS_CMD_MODIFY_QP:                        reflect.TypeFor[abi.IbUverbsModifyQp](),
	abi.IB_USER_VERBS_CMD_POST_SEND:                        reflect.TypeFor[abi.IbUverbsPostSend](),
	abi.IB_USER_VERBS_CMD_ATTACH_MCAST:                     reflect.TypeFor[abi.IbUverbsAttachMcast](),
	abi.IB_USER_VERBS_CMD_DETACH_MCAST:                     reflect.TypeFor[abi.IbUverbsDetachMcast](),
	abi.IB_USER_VERBS_CMD_MODIFY_SRQ:                       reflect.TypeFor[abi.IbUverbsModifySrq](),
	abi.IB_USER_VERBS_CMD_QUERY_SRQ:                        reflect.TypeFor[abi.IbUverbsQuerySrq](),
	abi.IB_USER_VERBS_CMD_OPEN_XRCD:                        reflect.TypeFor[abi.IbUverbsOpenXrcd](),
	abi.IB_USER_VERBS_CMD_OPEN_QP:                          reflect.TypeFor[abi.IbUverbsOpenQp](),
	extended | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:       reflect.TypeFor[abi.IbUverbsExQueryDevice](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_QP:          reflect.TypeFor[abi.IbUverbsExModifyQp](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ:          reflect.TypeFor[abi.IbUverbsExModifyCq](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ:          reflect.TypeFor[abi.IbUverbsExModifyWq](),
	extended | abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL: reflect.TypeFor[abi.IbUverbsExCreateRwqIndTable](),
	extended | abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW:        reflect.TypeFor[abi.IbUverbsCreateFlow](),
}

const extended = abi.IB_USER_VERBS_CMD_FLAG_EXTENDED

// command adds the fields of a command, and the rest of its bytes.
func (l *line) command(number uint32, b []byte) {
	l.fields = append(l.fields, fmt.Sprintf("in:%d", len(b)))
	typ, ok := inputs[number]
	if !ok {
		l.add("command", fmt.Sprintf("%#x", number))
		typ = reflect.TypeFor[struct{}]()
	}
	in := reflect.New(typ).Elem()
	l.structure("", in, b)
	if size := int(typ.Size()); len(b) > size && strings.Trim(string(b[size:]), "\x00") != "" {
		l.add("more", fmt.Sprintf("%x", b[size:]))
	}
}

// structure adds the fields of a struct that b holds, as far as b reaches.
func (l *line) structure(prefix string, in reflect.Value, b []byte) {
	for i := range in.NumField() {
		f := in.Type().Field(i)
		if f.Name == "_" || f.Name == "Response" || f.Name == "UserHandle" || int(f.Offset) >= len(b) {
			continue // the answer goes where the other attribute says, and a handle of user space's is any number
		}
		from := b[f.Offset:min(int(f.Offset+f.Type.Size()), len(b))]
		if f.Type.Kind() == reflect.Struct {
			l.structure(prefix+f.Name+".", in.Field(i), from)
			continue
		}
		l.member(prefix, f, from)
	}
}

// member adds a field, if it is not zero. A handle may be.
func (l *line) member(prefix string, f reflect.StructField, b []byte) {
	name, v := prefix+f.Name, little(b)
	switch f.Name {
	case "PdHandle", "QpHandle", "CqHandle", "MrHandle", "SrqHandle", "XrcdHandle", "WqHandle", "Fd":
		l.handle(name, uint32(v))
		return
	}
	switch {
	case strings.Trim(string(b), "\x00") == "":
	case f.Type.Kind() == reflect.Array:
		l.add(name, fmt.Sprintf("%x", b))
	case f.Name == "Start" || f.Name == "HcaVa":
		l.addr(name, v)
	case f.Name == "DestQpNum" || f.Name == "Qpn":
		l.qpn(name, uint32(v))
	default:
		l.num(name, v)
	}
}

// line is the record of a crossing, without the number of its opening.
type line struct {
	stream string
	kind   string
	fields []string
}

func (l *line) text() string {
	return strings.Join(append([]string{l.stream, l.kind}, l.fields...), " ")
}

func (l *line) add(name, value string)     { l.fields = append(l.fields, name+"="+value) }
func (l *line) num(name string, v uint64)  { l.add(name, fmt.Sprint(v)) }
func (l *line) hex(name string, v uint64)  { l.add(name, fmt.Sprintf("%#x", v)) }
func (l *line) addr(name string, v uint64) { l.add(name, fmt.Sprintf("@%#x", v)) }
func (l *line) key(name string, v uint32)  { l.add(name, fmt.Sprintf("#%#x", v)) }
func (l *line) qpn(name string, v uint32)  { l.add(name, fmt.Sprintf("%%q%d", v)) }

// masker replaces values that differ from run to run.
type masker struct {
	values                  *regexp.Regexp
	keys, numbers, openings map[string]string
}

func newMasker() *masker {
	return &masker{
		values: regexp.MustCompile(`@0x[0-9a-f]+|#0x[0-9a-f]+|%[a-z][0-9]+`),
		keys:   make(map[string]string), numbers: make(map[string]string), openings: make(map[string]string),
	}
}

// opening counts the openings from 1.
func (m *masker) opening(number string) string {
	if m.openings[number] == "" {
		m.openings[number] = fmt.Sprint(len(m.openings) + 1)
	}
	return m.openings[number]
}

func (m *masker) line(l string) string {
	return m.values.ReplaceAllStringFunc(l, func(v string) string {
		switch v[0] {
		case '@':
			return "@"
		case '#':
			return order(m.keys, v)
		}
		return order(m.numbers, v)
	})
}

// order returns the position of a value among those that were seen.
func order(seen map[string]string, v string) string {
	if seen[v] == "" {
		seen[v] = fmt.Sprintf("%c%d", v[0], len(seen)+1)
	}
	return seen[v]
}

// Masked reads a recording, and returns it without values that differ from run to run, one stream
// after the other in the order in which they began. Openings that made neither a CQ nor a QP
// are left out: librdmacm has one of its own for each device.
func Masked(r io.Reader) (string, error) {
	lines, err := read(r)
	if err != nil {
		return "", err
	}
	m := newMasker()
	var streams []string
	byStream := make(map[string][]string)
	for _, l := range busy(lines) {
		stream, what, _ := strings.Cut(m.line(l.rest), " ")
		stream = m.opening(l.opening) + " " + stream
		if !slices.Contains(streams, stream) {
			streams = append(streams, stream)
		}
		byStream[stream] = append(byStream[stream], stream+" "+what)
	}
	var b strings.Builder
	for _, stream := range streams {
		b.WriteString(strings.Join(byStream[stream], "\n") + "\n")
	}
	return b.String(), nil
}

// recorded is a line that was read.
type recorded struct{ opening, rest string }

func read(r io.Reader) (lines []recorded, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		opening, rest, _ := strings.Cut(s.Text(), " ")
		if !strings.Contains(rest, " ") {
			return nil, fmt.Errorf("not a line of a recording: %q", s.Text())
		}
		lines = append(lines, recorded{opening, rest})
	}
	return lines, s.Err()
}

// looks has the calls of an opening that create nothing.
var looks = regexp.MustCompile(`^(calls |asks\.)(GET_CONTEXT|QUERY_|ASYNC_EVENT_ALLOC)`)

// Private keeps the private bytes of calls, without the indexes that user space gives to queues:
// libmlx5 uses them again when a queue is gone, and provider/mlx5 not so soon, because completions may
// still name them.
func Private(recording string) string {
	var b strings.Builder
	for l := range strings.Lines(recording) {
		if _, rest, _ := strings.Cut(l, " "); strings.HasPrefix(rest, "calls ") {
			b.WriteString(indexes.ReplaceAllString(l, ""))
		}
	}
	return b.String()
}

var indexes = regexp.MustCompile(` index=\S+`)

// Requests keeps the requests of a recording, and Crossings the rest.
func Requests(recording string) string  { return keep(recording, true) }
func Crossings(recording string) string { return keep(recording, false) }

func keep(recording string, requests bool) string {
	var b strings.Builder
	for l := range strings.Lines(recording) {
		if strings.Contains(l, " asks.") == requests {
			b.WriteString(l)
		}
	}
	return b.String()
}

// busy leaves out the lines of openings that were not used.
func busy(lines []recorded) []recorded {
	made := make(map[string]bool)
	for _, l := range lines {
		made[l.opening] = made[l.opening] || !looks.MatchString(l.rest)
	}
	return slices.DeleteFunc(lines, func(l recorded) bool { return !made[l.opening] })
}

// Diff compares two recordings, and returns where they differ: the lines of the first behind
// a minus, those of the second behind a plus. It is empty when they are the same but for
// the values that are masked and the order in which streams began.
func Diff(a, b io.Reader) (string, error) {
	before, err := Masked(a)
	if err != nil {
		return "", err
	}
	after, err := Masked(b)
	if err != nil {
		return "", err
	}
	return compare(byStream(before), byStream(after)), nil
}

// byStream sorts the streams of a recording by their names.
func byStream(recording string) string {
	lines := strings.SplitAfter(recording, "\n")
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(streamOf(a), streamOf(b)) })
	return strings.Join(lines, "")
}

// streamOf returns the opening and the stream that a line begins with.
func streamOf(line string) string {
	fields := strings.SplitN(line, " ", 3)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

// compare goes through both, line by line, and looks ahead for where they meet again.
func compare(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		if len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
			continue
		}
		i, j := meet(a, b)
		for _, l := range a[:i] {
			fmt.Fprintf(&out, "-%s\n", l)
		}
		for _, l := range b[:j] {
			fmt.Fprintf(&out, "+%s\n", l)
		}
		a, b = a[i:], b[j:]
	}
	return out.String()
}

// far bounds the lines of both that meet compares.
const far = 1000

// meet finds the nearest lines that are the same, or the ends where they are far.
func meet(a, b []string) (i, j int) {
	for sum := 1; sum < min(len(a)+len(b), far); sum++ {
		for i := max(0, sum-len(b)+1); i <= sum && i < len(a); i++ {
			if j := sum - i; j < len(b) && a[i] == b[j] {
				return i, j
			}
		}
	}
	return len(a), len(b)
}
