package netlinkrdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
)

// msg returns one message of the answer to request 7.
func msg(typ, flags uint16, body string) string { return msgOf(7, typ, flags, body) }

func msgOf(seq uint32, typ, flags uint16, body string) string {
	b := binary.NativeEndian.AppendUint32(nil, uint32(messageHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 4711)
	return string(b) + body + strings.Repeat("\x00", -len(body)&3)
}

func errorCode(errno syscall.Errno) string { return u32(uint32(-int32(errno))) }

const reply = nldevType | abi.RDMA_NLDEV_CMD_RES_QP_GET

var (
	extack  = attr(2, u32(20)) + attr(extackText, "no such port\x00")
	request = msg(reply, flagRequest|flagAck, "1234")
)

func TestAnswer(t *testing.T) {
	for what, test := range map[string]struct {
		datagrams string
		replies   []string
		done      bool
		want      string // of the error
	}{
		"nothing":             {"", nil, false, ""},
		"a reply":             {msg(reply, 0, "abcd"), []string{"abcd"}, false, ""},
		"reply and ack":       {msg(reply, 0, "abcd") + msg(messageError, flagCapped, errorCode(0)+"requestrequest12"), []string{"abcd"}, true, ""},
		"two replies":         {msg(reply, 2, "abc") + msg(reply, 2, "d"), []string{"abc", "d"}, false, ""},
		"end of a dump":       {msg(reply, 2, "abcd") + msg(messageDone, 2, errorCode(0)), []string{"abcd"}, true, ""},
		"end without errno":   {msg(messageDone, 2, ""), nil, true, ""},
		"after the end":       {msg(messageDone, 2, "") + msg(reply, 0, "abcd"), nil, true, ""},
		"another request's":   {msgOf(8, reply, 0, "abcd") + msgOf(8, messageError, 0, errorCode(1)), nil, false, ""},
		"nothing to say":      {msg(1, 0, "") + msg(15, 0, "abcd"), nil, false, ""},
		"errno":               {msg(messageError, flagCapped, errorCode(syscall.EPERM)+request[:16]), nil, true, "operation not permitted"},
		"errno of a dump":     {msg(messageDone, 2, errorCode(syscall.EINVAL)), nil, true, "invalid argument"},
		"errno without sign":  {msg(messageError, 0, u32(1)), nil, true, "operation not permitted"},
		"text":                {msg(messageError, flagCapped|flagExtended, errorCode(syscall.EINVAL)+request[:16]+extack), nil, true, "no such port: invalid argument"},
		"text, whole request": {msg(messageError, flagExtended, errorCode(syscall.EINVAL)+request+extack), nil, true, "no such port: invalid argument"},
		"text of a dump":      {msg(messageDone, flagExtended, errorCode(syscall.EINVAL)+extack), nil, true, "no such port: invalid argument"},
		"text cut off":        {msg(messageError, flagCapped|flagExtended, errorCode(syscall.EINVAL)+request[:16]+extack[:12]), nil, true, "invalid argument"},
		"request cut off":     {msg(messageError, flagExtended, errorCode(syscall.EINVAL)+request[:8]), nil, true, "invalid argument"},
		"request cut short":   {msg(messageError, flagExtended, errorCode(syscall.EINVAL)+request[:19]), nil, true, "invalid argument"},
		"stray bytes":         {msg(reply, 0, "abcd") + "123", []string{"abcd"}, false, "3 bytes where a message should start"},
		"length 0":            {"\x00\x00\x00\x00" + request[4:], nil, false, "a message has invalid length 0, 20 bytes left"},
		"length past the end": {"\xff\xff\xff\xff" + request[4:], nil, false, "a message has invalid length 4294967295"},
		"ack cut off":         {msg(messageError, 0, "ab"), nil, true, "2 bytes for an errno"},
	} {
		a := answer{seq: 7}
		var got []string
		err := a.read([]byte(test.datagrams), func(r []byte) bool { got = append(got, string(r)); return true })
		if diff := cmp.Diff(test.replies, got); diff != "" || a.done != test.done {
			t.Errorf("%s: done %v (-want +got):\n%s", what, a.done, diff)
		}
		if text := fmt.Sprint(err); (err == nil) != (test.want == "") || err != nil && !strings.Contains(text, test.want) {
			t.Errorf("%s: %v, want %q", what, err, test.want)
		}
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, new(syscall.Errno)) {
			t.Errorf("%s: strange error %v", what, err)
		}
	}
}

func TestAnswerInterrupted(t *testing.T) {
	dump := msg(reply, 2|flagInterrupted, "abcd") + msg(reply, 2, "efgh")
	a := answer{seq: 7}
	if err := a.read([]byte(dump), func([]byte) bool { return true }); err != nil || !a.interrupted {
		t.Errorf("%v, interrupted %v", err, a.interrupted)
	}
	a, n := answer{seq: 7}, 0
	if err := a.read([]byte(dump), func([]byte) bool { n++; return false }); err != nil || !a.done || a.interrupted || n != 1 {
		t.Errorf("%v, %+v after %d replies, though nobody wants the rest", err, a, n)
	}
}

func TestRequestMessage(t *testing.T) {
	r := Request{Op: 10, Dump: true, Attrs: []Attr{byIndex(3), {2, []byte("siw0\x00")}}}
	want := msgOf(7, reply, flagRequest|flagAck|flagDump, attr(1, u32(3))+attr(2, "siw0\x00"))
	want = want[:12] + u32(0) + want[16:]
	if diff := cmp.Diff(want, string(r.message(7))); diff != "" {
		t.Error(diff)
	}
}

// FuzzAnswer parses any bytes as an answer. Nothing may panic or be read outside them.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(request))
	f.Add([]byte(msg(reply, 2, "abcd") + msg(messageDone, 2, errorCode(0))))
	f.Add([]byte(msg(messageError, flagCapped|flagExtended, errorCode(syscall.EINVAL)+request[:16]+extack)))
	f.Add([]byte(msg(messageError, flagExtended, errorCode(syscall.EINVAL)+request+extack)))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		a, sum := answer{seq: 7}, 0
		err := a.read(datagram, func(r []byte) bool { sum += messageHeader + len(r); return true })
		if sum > len(datagram) {
			t.Fatalf("%d bytes out of %d", sum, len(datagram))
		}
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, new(syscall.Errno)) {
			t.Fatal(err)
		}
	})
}

// attr returns the bytes of one attribute with its padding.
func attr(typ uint16, value string) string {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return string(b) + value + strings.Repeat("\x00", -len(value)&3)
}

func u32(v uint32) string { return string(binary.NativeEndian.AppendUint32(nil, v)) }
func u64(v uint64) string { return string(binary.NativeEndian.AppendUint64(nil, v)) }

var (
	index = attr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, u32(2))
	name  = attr(abi.RDMA_NLDEV_ATTR_DEV_NAME, "siw0\x00")
)

func TestParseDeviceOddities(t *testing.T) {
	want := Device{Index: 2, Name: "siw0"}
	for what, reply := range map[string]string{
		"plain":              index + name,
		"other order":        name + index,
		"padding":            attr(0, "") + index + attr(0, "") + name + attr(0, ""),
		"name without NUL":   index + attr(abi.RDMA_NLDEV_ATTR_DEV_NAME, "siw0"),
		"name with two NULs": index + attr(abi.RDMA_NLDEV_ATTR_DEV_NAME, "siw0\x00\x00x"),
		"unknown attribute":  attr(4000, "what is it") + index + name,
		"unknown and nested": attr(0x8000|4001, attr(1, "\x01")) + index + name,
		"flags on a type":    attr(0xc000|abi.RDMA_NLDEV_ATTR_DEV_INDEX, u32(2)) + name,
		"no last padding":    index + strings.TrimSuffix(name, "\x00\x00\x00"),
	} {
		got, err := parseDevice([]byte(reply))
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestMalformedReplies(t *testing.T) {
	device := func(b []byte) error { _, err := parseDevice(b); return err }
	port := func(b []byte) error { _, err := parsePort(b); return err }
	chardev := func(b []byte) error { _, err := parseCharDev(b); return err }
	resources := func(b []byte) error { _, err := parseResources(b); return err }
	summary := func(s string) string {
		return attr(abi.RDMA_NLDEV_ATTR_RES_SUMMARY, attr(0x8000|abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, s))
	}
	for _, test := range []struct {
		what  string
		parse func([]byte) error
		reply string
		want  string
	}{
		{"empty", device, "", "no attribute DEV_INDEX"},
		{"no name", device, index, "no attribute DEV_NAME"},
		{"empty name", device, index + attr(abi.RDMA_NLDEV_ATTR_DEV_NAME, ""), "no attribute DEV_NAME"},
		{"stray bytes", device, index + name + "abc", "3 bytes where an attribute should start"},
		{"index too short", device, attr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, "\x01\x02"), "attribute DEV_INDEX has 2 bytes, want 4"},
		{"index too long", device, attr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, "12345678") + name, "attribute DEV_INDEX has 8 bytes, want 4"},
		{"GUID empty", device, index + name + attr(abi.RDMA_NLDEV_ATTR_NODE_GUID, ""), "attribute NODE_GUID has 0 bytes, want 8"},
		{"length 0", device, index + "\x00\x00\x02\x00", "attribute DEV_NAME has invalid length 0"},
		{"length 3", device, index + "\x03\x00\x02\x00", "has invalid length 3, 4 bytes left"},
		{"length past the end", device, index + "\xff\xff\x02\x00siw0", "has invalid length 65535, 8 bytes left"},
		{"unknown past the end", device, index + name + "\x09\x00\xa0\x0fabcd", "attribute 4000 has invalid length 9"},
		{"port 0", port, index + name + attr(abi.RDMA_NLDEV_ATTR_PORT_INDEX, u32(0)), "no attribute PORT_INDEX"},
		{"port state", port, index + name + attr(abi.RDMA_NLDEV_ATTR_PORT_STATE, u32(4)), "attribute PORT_STATE has 4 bytes, want 1"},
		{"LID", port, index + name + attr(abi.RDMA_NLDEV_ATTR_LID, "\x01\x00"), "attribute LID has 2 bytes"},
		{"no number", chardev, attr(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs0\x00"), "no attribute CHARDEV"},
		{"no node", chardev, attr(abi.RDMA_NLDEV_ATTR_CHARDEV, u64(0xe7c0)), "no attribute CHARDEV_NAME"},
		{"entry cut", resources, summary("\x08\x00\x11"), "in RES_SUMMARY: in RES_SUMMARY_ENTRY: "},
		{"entry without name", resources, summary(attr(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, u64(1))), "no attribute RES_SUMMARY_ENTRY_NAME"},
	} {
		err := test.parse([]byte(test.reply))
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		}
	}
}

func TestSplitDev(t *testing.T) {
	for _, test := range []struct {
		v            uint64
		major, minor uint32
	}{
		{0xe7c0, 231, 192},
		{0x100a04, 10, 260},
		{0xfffffff, 0xfff, 0xffff},
		{0xffffffff, 0xfff, 0xfffff},
	} {
		if major, minor := splitDev(test.v); major != test.major || minor != test.minor {
			t.Errorf("%#x = %d:%d, want %d:%d", test.v, major, minor, test.major, test.minor)
		}
	}
}

func check[T any](t *testing.T, parse func([]byte) (T, error), reply, again []byte) {
	t.Helper()
	first, err := parse(reply)
	if err != nil {
		if !errors.Is(err, ErrMalformed) {
			t.Fatalf("strange error: %v", err)
		}
		return
	}
	second, err := parse(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, sameAddr); diff != "" {
		t.Fatal(diff)
	}
}
