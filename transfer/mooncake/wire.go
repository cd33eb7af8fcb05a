package mooncake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/verbs"
)

// A message is its length (8 bytes, little-endian), a kind (1 byte, included in the length) and JSON. Each stream has
// one request and an answer of the same kind. Old peers send no kind. Their JSON begins with a character that is none.
type kind byte

const (
	kindConnection kind = 0
	kindMetadata   kind = 1
	kindNotify     kind = 2
	kindProbe      kind = 3
	kindOld        kind = 255 // a connection without a kind
)

const (
	maxMessage = 1 << 20  // what nodes in C++ accept
	maxAnswer  = 16 << 20 // what this end accepts, because their limit can be raised

	maxDevices = 64 // of a segment
	maxBuffers = 1 << 16
	maxPairs   = 16   // queue pairs of a connection
	maxName    = 1024 // bytes of a name, or of a path
	maxText    = 200  // bytes of a peer's text in an error

	protocolRDMA = "rdma"
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", transfer.ErrProtocol, fmt.Sprintf(format, args...))
}

// quoted returns a peer's text for an error.
func quoted(s string) string { return fmt.Sprintf("%q", s[:min(len(s), maxText)]) }

// message returns the bytes of a message.
func message(k kind, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	b := make([]byte, 8, 9+len(text))
	if k != kindOld {
		b = append(b, byte(k))
	}
	b = append(b, text...)
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}

// readMessage reads a message. Memory grows only with the bytes that have arrived.
func readMessage(r io.Reader, limit uint64) (kind, []byte, error) {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.LittleEndian.Uint64(header[:])
	if length == 0 || length > limit {
		return 0, nil, violation("a message of %d bytes is not in the range from 1 to %d", length, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err != nil {
		return 0, nil, err
	}
	if uint64(len(b)) != length {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if k := kind(b[0]); k <= kindProbe {
		return k, b[1:], nil
	}
	return kindOld, b, nil
}

// decode decodes JSON. Its errors have no text of the peer in them.
func decode(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return violation("member %q is no %v", mismatch.Field, mismatch.Type)
	}
	return violation("%v", err)
}

// exchange sends a request, and decodes the answer.
func exchange(ctx context.Context, dial dialFunc, address string, k kind, request, answer any) error {
	b, err := message(k, request)
	if err != nil {
		return err
	}
	s, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	var got kind
	if _, err = s.Write(b); err == nil {
		got, b, err = readMessage(s, maxAnswer)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the node at %s: %w", address, ctx.Err())
	case err == nil && got != k:
		err = violation("an answer of kind %d to a request of kind %d", got, k)
	case err == nil:
		err = decode(b, answer)
	}
	if err != nil {
		return fmt.Errorf("the node at %s: %w", address, err)
	}
	return nil
}

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

// descriptor describes a segment.
type descriptor struct {
	Name       string          `json:"name"`
	Protocol   json.RawMessage `json:"protocol"` // a string, or an array of strings
	ServerName string          `json:"rdma_server_name,omitempty"`
	Devices    []device        `json:"devices"`
	Buffers    []buffer        `json:"buffers"`
}

// UnmarshalJSON implements [json.Unmarshaler]. Package json itself would make room for as many elements as fit into a
// message, each of which may take 40 times the memory of its text.
func (d *descriptor) UnmarshalJSON(b []byte) error {
	type members descriptor
	m := struct {
		*members
		Devices json.RawMessage `json:"devices"`
		Buffers json.RawMessage `json:"buffers"`
	}{members: (*members)(d)}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	return cmp.Or(decodeArray(m.Devices, "devices", &d.Devices), decodeArray(m.Buffers, "buffers", &d.Buffers))
}

// decodeArray decodes a member that is an array of at most maxBuffers elements.
func decodeArray[T any](b []byte, name string, all *[]T) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return &json.UnmarshalTypeError{Field: name, Type: reflect.TypeFor[[]T]()}
	}
	for d.More() {
		if len(*all) == maxBuffers {
			return fmt.Errorf("member %q has more than %d elements", name, maxBuffers)
		}
		var v T
		err := d.Decode(&v)
		if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
			mismatch.Field = strings.TrimSuffix(name+"."+mismatch.Field, ".")
		}
		if err != nil {
			return err
		}
		*all = append(*all, v)
	}
	return nil
}

// publication is a descriptor with the members that only nodes in C++ need.
type publication struct {
	descriptor
	TCPPort    int                    `json:"tcp_data_port"`
	TCPVersion int                    `json:"tcp_proto_version"`
	Timestamp  string                 `json:"timestamp"`
	Matrix     map[string][2][]string `json:"priority_matrix"`
}

type device struct {
	Name string `json:"name"`
	LID  uint16 `json:"lid"`
	GID  string `json:"gid"`
}

type buffer struct {
	Name   string   `json:"name"`
	Addr   uint64   `json:"addr"`
	Length uint64   `json:"length"`
	RKeys  []uint32 `json:"rkey"`
	LKeys  []uint32 `json:"lkey"`
}

// size returns the bytes that b takes in a descriptor, with a comma.
func (b buffer) size() int {
	text, _ := json.Marshal(b) // never fails
	return len(text) + 1
}

// identity returns bytes that another buffer has only if its operations have the same addresses and keys.
func (b *buffer) identity() string {
	id := binary.BigEndian.AppendUint64(make([]byte, 0, 16+4*len(b.RKeys)), b.Addr)
	id = binary.BigEndian.AppendUint64(id, b.Length)
	for _, k := range b.RKeys {
		id = binary.BigEndian.AppendUint32(id, k)
	}
	return string(id)
}

// check checks all that does not depend on a device.
func (d *descriptor) check() error {
	if err := d.checkProtocol(); err != nil {
		return err
	}
	if len(d.Name) > maxName || len(d.ServerName) > maxName {
		return violation("the segment's name has %d bytes", max(len(d.Name), len(d.ServerName)))
	}
	if n := len(d.Devices); n == 0 || n > maxDevices {
		return violation("the segment has %d devices, not 1 to %d", n, maxDevices)
	}
	for i := range d.Devices {
		dev := &d.Devices[i]
		if dev.Name == "" || len(dev.Name) > maxName {
			return violation("the name of device %d has %d bytes", i, len(dev.Name))
		}
		if _, err := parseGID(dev.GID); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
	}
	d.Buffers = slices.DeleteFunc(d.Buffers, func(b buffer) bool { return len(b.RKeys) == 0 }) // another transport's
	if n := len(d.Buffers); n > maxBuffers {
		return violation("the segment has %d buffers, the most is %d", n, maxBuffers)
	}
	for i := range d.Buffers {
		switch b := &d.Buffers[i]; {
		case b.Addr == 0 || b.Length == 0 || b.Length > math.MaxInt || b.Addr+b.Length < b.Addr:
			return violation("buffer %d has %d bytes at %#x", i, b.Length, b.Addr)
		case len(b.RKeys) != len(d.Devices):
			return violation("buffer %d has %d keys for %d devices", i, len(b.RKeys), len(d.Devices))
		}
	}
	return nil
}

func (d *descriptor) checkProtocol() error {
	if len(d.Protocol) > maxName {
		return violation("the segment's protocol has %d bytes", len(d.Protocol))
	}
	var one string
	if json.Unmarshal(d.Protocol, &one) == nil && one == protocolRDMA {
		return nil
	}
	var several []string
	if json.Unmarshal(d.Protocol, &several) == nil && slices.Contains(several, protocolRDMA) {
		return nil
	}
	return fmt.Errorf("%w: the segment's protocol is %s, not %s", verbs.ErrNotSupported, quoted(string(d.Protocol)), protocolRDMA)
}

// path returns the path of a device.
func (d *descriptor) path(i int) string {
	name := d.Name
	if d.ServerName != "" {
		name = d.ServerName
	}
	return nicPath(name, d.Devices[i].Name)
}

// has reports whether all devices and buffers of an older descriptor are as they were.
func (d *descriptor) has(old *descriptor) bool {
	if !slices.EqualFunc(d.Devices, old.Devices, func(a, b device) bool { return a.Name == b.Name }) {
		return false
	}
	now := make(map[string]bool, len(d.Buffers))
	for i := range d.Buffers {
		now[d.Buffers[i].identity()] = true
	}
	return !slices.ContainsFunc(old.Buffers, func(b buffer) bool { return !now[b.identity()] })
}

// handshake is the request of a connection, and the answer.
type handshake struct {
	Local    string   `json:"local_nic_path"`
	LID      uint16   `json:"local_lid"`
	GID      string   `json:"local_gid"`
	Peer     string   `json:"peer_nic_path"`
	Pairs    []uint32 `json:"qp_num"`
	ReadyAck *bool    `json:"ready_ack,omitempty"` // true: the connection that is known is ready; missing: not supported
	Payload  string   `json:"payload"`
	Refusal  string   `json:"reply_msg"`
}

// checkPairs checks the numbers of queue pairs.
func (h *handshake) checkPairs() error {
	if n := len(h.Pairs); n == 0 || n > maxPairs {
		return violation("%d queue pairs, not 1 to %d", n, maxPairs)
	}
	for _, n := range h.Pairs {
		if n == 0 || n >= 1<<24 {
			return violation("queue pair number %#x", n)
		}
	}
	return nil
}

type notification struct {
	Name    string `json:"name"`
	Message string `json:"notify_msg"`
}

type probeAnswer struct {
	Status string `json:"status"`
}

const success = "success"

func nicPath(name, device string) string { return name + "@" + device }

// splitPath returns the name and the device of a path.
func splitPath(path string) (name, device string, err error) {
	name, device, found := strings.Cut(path, "@")
	if !found || name == "" || device == "" || len(path) > maxName {
		return "", "", violation("%s is no path of a device", quoted(path))
	}
	return name, device, nil
}

// formatGID returns a GID with colons between its bytes.
func formatGID(g verbs.GID) string {
	b := make([]byte, 0, 3*len(g))
	for _, x := range g {
		b = append(hex.AppendEncode(b, []byte{x}), ':')
	}
	return string(b[:len(b)-1])
}

func parseGID(s string) (g verbs.GID, err error) {
	parts := strings.SplitN(s, ":", len(g)+1)
	if len(parts) != len(g) {
		return g, violation("%s is no GID", quoted(s))
	}
	for i, x := range parts {
		if n, err := hex.Decode(g[i:i+1], []byte(x[:min(len(x), 2)])); err != nil || n != 1 || len(x) != 2 {
			return g, violation("%s is no GID", quoted(s))
		}
	}
	return g, nil
}
