package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// faults makes the faults of --fault, --faults and --control happen.
type faults struct {
	network *rdmatest.Fabric
	hosts   []*machine
	subnet  *fabric // of --fabric, in place of hosts, or nil

	planned []plannedFault
	timers  []*time.Timer

	mu    sync.Mutex
	lines int
	undo  map[string]func() // of states that are on, by their words
	once  []onceFault
}

// onceFault is a fault that happens once, and its line.
type onceFault struct {
	*rdmatest.Fault
	line string
}

// A sandbox keeps lines for its report, and whoever has the control socket could send any number, of any length.
const (
	mostLines   = 10_000
	longestLine = 1 << 10 // bytes
)

// plannedFault is a line of a script.
type plannedFault struct {
	after time.Duration // from the start of the command
	begin func()
}

// faultWords has the first words of lines. They are the methods of package rdmatest that the lines call.
var faultWords = map[string]func(*faultLine) (begin func(), err error){
	"latency": func(l *faultLine) (func(), error) {
		d, err := wordOf(l, "TIME, such as 50us", func(s string) (time.Duration, error) {
			d, err := time.ParseDuration(s)
			if err == nil && d < 0 {
				err = strconv.ErrRange
			}
			return d, err
		})
		return func() { l.network.SetLatency(d) }, err
	},
	"bandwidth": func(l *faultLine) (func(), error) {
		n, err := wordOf(l, "BYTES per second", func(s string) (int64, error) {
			n, err := strconv.ParseUint(s, 10, 63)
			return int64(n), err
		})
		return func() { l.network.SetBandwidth(n) }, err
	},
	"loss": func(l *faultLine) (func(), error) {
		part, err := wordOf(l, "PART from 0 to 1", fraction)
		return func() { l.network.SetLoss(part) }, err
	},
	"reordering": func(l *faultLine) (func(), error) {
		part, err := wordOf(l, "PART from 0 to 1", fraction)
		return func() { l.network.SetReordering(part) }, err
	},
	"partition": func(l *faultLine) (func(), error) {
		a, err := l.host()
		if err != nil {
			return nil, err
		}
		b, err := l.host()
		if err != nil {
			return nil, err
		}
		from, to := a.devices[0], b.devices[0]
		return l.state(fmt.Sprint("partition ", min(from.n, to.n), " ", max(from.n, to.n)), func() func() {
			return l.network.Partition(from.own.Host(), to.own.Host())
		})
	},
	"pause": func(l *faultLine) (func(), error) {
		return l.state("pause", func() func() { _, resume := l.network.Pause(); return resume })
	},
	"stall-receives": func(l *faultLine) (func(), error) {
		_, d, err := l.device()
		if err != nil {
			return nil, err
		}
		return l.state(fmt.Sprint("stall-receives ", d.n), d.own.StallReceives)
	},
	"link": func(l *faultLine) (func(), error) {
		m, d, err := l.device()
		if err != nil {
			return nil, err
		}
		word, err := l.OneOf("up", "down")
		return func() { m.setLink(d, word == "up") }, err
	},
	"address": func(l *faultLine) (func(), error) {
		_, d, err := l.device()
		if err != nil {
			return nil, err
		}
		if !d.model.IsRoCE() {
			return nil, fmt.Errorf("%s is not on RoCE, so its GIDs do not depend on addresses", d.Name)
		}
		word, err := l.OneOf("add", "remove")
		if err != nil {
			return nil, err
		}
		change := d.own.AddAddr
		if word == "remove" {
			change = d.own.RemoveAddr
		}
		a, err := wordOf(l, "ADDRESS, such as 198.51.100.7", netip.ParseAddr)
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			change(a)
			for _, m := range l.hosts { // the address may have been that of another device
				m.refreshGIDs()
			}
		}, err
	},
	"remove": func(l *faultLine) (func(), error) {
		if l.subnet != nil {
			return nil, errors.New("an adapter of --fabric can't be removed, because its umad nodes would stay; link HOST down unplugs its cable")
		}
		m, d, err := l.device()
		return func() { m.unplug(d) }, err
	},
	"fail": func(l *faultLine) (func(), error) {
		_, d, err := l.device()
		if err != nil {
			return nil, err
		}
		call, err := l.Value("CALL, such as REG_MR, or any")
		if err != nil {
			return nil, err
		}
		if call == "any" {
			call = string(rdmatest.AnyCall)
		}
		errno, err := wordOf(l, "ERRNO, such as ENOMEM", errnoOf)
		if err != nil {
			return nil, err
		}
		return l.single(func(skip int) *rdmatest.Fault { return d.own.Fail(rdmatest.Call(call), skip, errno) })
	},
	"fail-send": func(l *faultLine) (func(), error) {
		return l.completion((*rdmatest.Device).FailSend)
	},
	"fail-recv": func(l *faultLine) (func(), error) {
		return l.completion((*rdmatest.Device).FailRecv)
	},
	"cut-send": func(l *faultLine) (func(), error) {
		_, d, err := l.device()
		if err != nil {
			return nil, err
		}
		n, err := wordOf(l, "BYTES", count)
		if err != nil {
			return nil, err
		}
		return l.single(func(skip int) *rdmatest.Fault { return d.own.CutSend(skip, n) })
	},
	"fail-cm": func(l *faultLine) (func(), error) {
		cmd, err := l.OneOf(cmCommands...)
		if err != nil {
			return nil, err
		}
		errno, err := wordOf(l, "ERRNO, such as ENODEV", errnoOf)
		return func() { l.note(l.network.FailCM(cmNumbers[cmd], errno)) }, err
	},
	"hold-cm": func(l *faultLine) (func(), error) {
		cmd, err := l.OneOf(cmCommands...)
		return func() { l.network.HoldCM(cmNumbers[cmd]) }, err
	},
}

// cmNumbers are the commands of rdma_cm that fail-cm and hold-cm take, by their names in the kernel's header.
var cmNumbers = map[string]rdmatest.CMCommand{
	"CREATE_ID": rdmatest.CMCreateID, "DESTROY_ID": rdmatest.CMDestroyID, "BIND": rdmatest.CMBind, "RESOLVE_ADDR": rdmatest.CMResolveAddr,
	"RESOLVE_ROUTE": rdmatest.CMResolveRoute, "QUERY": rdmatest.CMQuery, "INIT_QP_ATTR": rdmatest.CMInitQPAttr, "CONNECT": rdmatest.CMConnect,
	"LISTEN": rdmatest.CMListen, "ACCEPT": rdmatest.CMAccept, "REJECT": rdmatest.CMReject, "DISCONNECT": rdmatest.CMDisconnect,
	"SET_OPTION": rdmatest.CMSetOption, "MIGRATE_ID": rdmatest.CMMigrateID, "JOIN_MCAST": rdmatest.CMJoinMcast, "LEAVE_MCAST": rdmatest.CMLeaveMcast,
}

var (
	cmCommands = slices.Sorted(maps.Keys(cmNumbers))
	faultNames = slices.Sorted(maps.Keys(faultWords))
)

// faultLine is a line that is being read.
type faultLine struct {
	*faults
	*cli.Words
	line string
}

// parse parses a line: an optional time from the start of the command, a word of faultWords, and the arguments of the
// word.
func (f *faults) parse(line string) (plannedFault, error) {
	var p plannedFault
	if len(line) > longestLine {
		return p, fmt.Errorf("fault: a line of %d bytes; %d are allowed", len(line), longestLine)
	}
	fields := strings.Fields(line)
	if len(fields) > 0 {
		if after, err := time.ParseDuration(fields[0]); err == nil {
			p.after, fields = max(after, 0), fields[1:]
		}
	}
	l := &faultLine{f, cli.NewWords(fields), line}
	word, err := l.OneOf(faultNames...)
	if err == nil {
		p.begin, err = faultWords[word](l)
	}
	if err == nil {
		err = l.End()
	}
	if err != nil {
		return p, fmt.Errorf("fault %q: %w", line, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lines++; f.lines > mostLines {
		return p, fmt.Errorf("fault %q: a sandbox takes %d lines", line, mostLines)
	}
	return p, nil
}

// host takes a host, by its number, or by the name of a node of --fabric.
func (l *faultLine) host() (*machine, error) {
	return wordOf(l, l.hostWord(), l.machine)
}

func (f *faults) hostWord() string {
	if f.subnet != nil {
		return fmt.Sprintf("HOST from 1 to %d, or the name of an adapter", len(f.subnet.hosts))
	}
	return fmt.Sprintf("HOST from 1 to %d", len(f.hosts))
}

// machine returns the host that a word names, which has a device.
func (f *faults) machine(word string) (*machine, error) {
	if f.subnet != nil {
		m, err := f.subnet.machine(word)
		if err == nil && m.devices == nil {
			err = errors.New("no device")
		}
		return m, err
	}
	n, err := hostNumber(word, len(f.hosts))
	return f.hosts[n-1], err
}

// device takes a host, which a colon and the name of one of its devices may follow.
func (l *faultLine) device() (m *machine, d *verbsDevice, err error) {
	word, err := l.Value(l.hostWord() + ", or HOST:DEVICE")
	if err != nil {
		return nil, nil, err
	}
	host, name, named := strings.Cut(word, ":")
	m, err = l.machine(host)
	if err != nil || host == "" {
		return nil, nil, cli.Expected(host, l.hostWord())
	}
	if d = m.devices[0]; named {
		d = m.deviceThat(func(d *verbsDevice) bool { return d.Name == name })
	}
	if d == nil {
		var names []string
		for _, d := range m.devices {
			names = append(names, d.Name)
		}
		return nil, nil, cli.Expected(name, names...)
	}
	return m, d, nil
}

// state takes the word off, or nothing. The line begins a state that lasts until it is said again with off.
func (l *faultLine) state(name string, begin func() (end func())) (func(), error) {
	if !l.More() {
		return func() { l.turn(name, begin) }, nil
	}
	return func() { l.turn(name, nil) }, l.Keyword("off")
}

// turn begins a state if it is off, or ends it if begin is nil.
func (f *faults) turn(name string, begin func() (end func())) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.undo[name]
	switch {
	case begin != nil && end == nil:
		f.undo[name] = begin()
	case begin == nil && end != nil:
		delete(f.undo, name)
		end()
	}
}

// completion is fail-send and fail-recv.
func (l *faultLine) completion(fail func(*rdmatest.Device, int, verbs.Status) *rdmatest.Fault) (func(), error) {
	_, d, err := l.device()
	if err != nil {
		return nil, err
	}
	status, err := wordOf(l, "STATUS, the number of enum ibv_wc_status", func(s string) (verbs.Status, error) {
		n, err := strconv.ParseUint(s, 10, 8)
		if err == nil && (n == 0 || n > uint64(verbs.StatusGeneralErr)) {
			err = strconv.ErrRange
		}
		return verbs.Status(n), err
	})
	if err != nil {
		return nil, err
	}
	return l.single(func(skip int) *rdmatest.Fault { return fail(d.own, skip, status) })
}

// single takes how many others go well before, by default none. The fault happens once.
func (l *faultLine) single(begin func(skip int) *rdmatest.Fault) (func(), error) {
	skip := 0
	if l.More() {
		var err error
		if skip, err = wordOf(l, "number of those to let through", count); err != nil {
			return nil, err
		}
	}
	return func() { l.note(begin(skip)) }, nil
}

func (l *faultLine) note(fault *rdmatest.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once = append(l.once, onceFault{fault, l.line})
}

// idle returns the lines whose faults have not happened.
func (f *faults) idle() (lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.once {
		if !o.Struck() {
			lines = append(lines, o.line)
		}
	}
	return lines
}

// plan reads the lines of the command line, for start.
func (f *faults) plan(lines []string) error {
	for _, line := range lines {
		p, err := f.parse(line)
		if err != nil {
			return cli.UsageError{Text: err.Error()}
		}
		f.planned = append(f.planned, p)
	}
	return nil
}

// start makes the planned faults happen at their times from now on.
func (f *faults) start() {
	for _, p := range f.planned {
		if p.after == 0 {
			p.begin()
			continue
		}
		f.timers = append(f.timers, time.AfterFunc(p.after, p.begin))
	}
}

// end reports the faults that have not happened.
func (f *faults) end(out cli.Output) {
	late := 0
	for _, t := range f.timers {
		if t.Stop() {
			late++
		}
	}
	if late > 0 {
		out.Note("%d of the faults were planned for a time after the end of the command", late)
	}
	for _, line := range f.idle() {
		out.Note("fault %q has not happened", line)
	}
}

// mostControllers is how many clients a control socket serves at a time.
const mostControllers = 16

// listen accepts clients that send lines at a Unix socket. The reply to each line is ok or an error.
func (f *faults) listen(path string) (io.Closer, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--control: %s exists; another sandbox has it, or was killed: then remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	go func() {
		free := make(chan struct{}, mostControllers)
		for {
			free <- struct{}{}
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				f.control(c)
				c.Close()
				<-free
			}()
		}
	}()
	return l, nil
}

// control serves a client of the control socket until it has sent nothing for a minute.
func (f *faults) control(c net.Conn) {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 2*longestLine)
	for c.SetDeadline(time.Now().Add(time.Minute)) == nil && lines.Scan() {
		p, err := f.parse(lines.Text())
		answer := "ok"
		switch {
		case err != nil:
			answer = err.Error()
		case p.after > 0:
			answer = fmt.Sprintf("fault %q: a line of a control socket has no time", lines.Text())
		default:
			p.begin()
		}
		if _, err := fmt.Fprintln(c, answer); err != nil {
			return
		}
	}
}

// sendFault sends a line to the control socket of a sandbox.
func sendFault(ctx context.Context, out cli.Output, args []string) error {
	if len(args) < 2 {
		return cli.UsageError{Text: "expected the control socket of a sandbox and a line: fault SOCKET LINE"}
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", args[0])
	if err != nil {
		return fmt.Errorf("%w; rdmalink sandbox --control %s -- CMD makes the socket, for as long as CMD runs", err, args[0])
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := fmt.Fprintln(c, strings.Join(args[1:], " ")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(c, 1<<16)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", args[0], err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return cli.UsageError{Text: answer}
	}
	return nil
}

// wordOf takes a word that parse reads.
func wordOf[T any](l *faultLine, placeholder string, parse func(string) (T, error)) (v T, err error) {
	word, err := l.Value(placeholder)
	if err != nil {
		return v, err
	}
	if v, err = parse(word); err != nil {
		return v, cli.Expected(word, placeholder)
	}
	return v, nil
}

func count(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

func fraction(s string) (float64, error) {
	part, err := strconv.ParseFloat(s, 64)
	if err == nil && !(part >= 0 && part <= 1) {
		err = strconv.ErrRange
	}
	return part, err
}

// errnoOf returns the number of an errno's name.
func errnoOf(name string) (syscall.Errno, error) {
	for e := syscall.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == name {
			return e, nil
		}
	}
	return 0, strconv.ErrSyntax
}
