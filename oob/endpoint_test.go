package oob

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// sample is an endpoint as a peer may have it.
func sample(t verbs.QPType) Endpoint {
	e := Endpoint{Type: t, Instance: [16]byte{1, 15: 16}, QPN: 0x123456, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, GIDType: verbs.GIDTypeRoCEv2,
		MTU: verbs.MTU1024, PrivateData: []byte("private"), nonce: 0x1122334455667788, psn: 0xabcdef}
	switch t {
	case verbs.QPTypeRC:
		e.readsIn, e.readsOut = 16, 128
	case verbs.QPTypeUD:
		e.qkey = 0x7fffffff
	case verbs.QPTypeSRD:
		e.QPN, e.qkey, e.GID, e.GIDType = 0xffff, 0x7fffffff, verbs.GID{0: 0xfe, 1: 0x80, 15: 1}, verbs.GIDTypeIB
	}
	return e
}

// TestFormat pins the bytes, which other versions have to understand.
func TestFormat(t *testing.T) {
	answer := sample(verbs.QPTypeRC)
	answer.answers = 5
	for _, c := range []struct {
		name string
		f    frame
		want string
	}{
		{"answer", frame{kind: kindAnswer, endpoint: answer}, "67766f62 01 02 007a" + "0001 0001 02" + "0002 0010 01000000000000000000000000000010" +
			"0003 0008 1122334455667788" + "0004 0008 0000000000000005" + "0005 0004 00123456" + "0006 0004 00abcdef" +
			"0008 0010 00000000000000000000ffff0a000001" + "0009 0001 02" + "000a 0002 0000" + "000b 0001 03" + "000c 0001 10" + "000d 0001 80" +
			"000e 0007 70726976617465"},
		{"offer of SRD", frame{kind: kindOffer, endpoint: sample(verbs.QPTypeSRD)}, "67766f62 01 01 006c" + "0001 0001 fe" + "0002 0010 01000000000000000000000000000010" +
			"0003 0008 1122334455667788" + "0005 0004 0000ffff" + "0006 0004 00abcdef" + "0007 0004 7fffffff" +
			"0008 0010 fe800000000000000000000000000001" + "0009 0001 00" + "000a 0002 0000" + "000b 0001 03" + "000e 0007 70726976617465"},
		{"ready", frame{kind: kindReady, endpoint: Endpoint{answers: 7}}, "67766f62 01 03 000c" + "0004 0008 0000000000000007"},
		{"refusal", frame{kind: kindRefuse, reason: "no"}, "67766f62 01 04 0006" + "000f 0002 6e6f"},
		{"bye", frame{kind: kindBye}, "67766f62 01 05 0000"},
	} {
		got := c.f.bytes()
		if want := strings.ReplaceAll(c.want, " ", ""); hex.EncodeToString(got) != want {
			t.Errorf("%s:\n%x\n%s", c.name, got, want)
		}
		if back, err := parse(got); err != nil || !reflect.DeepEqual(*back, c.f) {
			t.Errorf("%s: %+v, %v", c.name, back, err)
		}
	}
}

// TestUnknownFields checks that a later version may add fields.
func TestUnknownFields(t *testing.T) {
	f := frame{kind: kindOffer, endpoint: sample(verbs.QPTypeUD)}
	b := append(f.bytes(), 0xff, 1, 0, 3, 'n', 'e', 'w')
	binary.BigEndian.PutUint16(b[6:], uint16(len(b)-headerSize))
	if got, err := parse(b); err != nil || !reflect.DeepEqual(*got, f) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBadMessages checks that each mistake of a peer is named.
func TestBadMessages(t *testing.T) {
	change := func(kind verbs.QPType, f func(*Endpoint)) []byte {
		e := sample(kind)
		f(&e)
		return (&frame{kind: kindOffer, endpoint: e}).bytes()
	}
	good := (&frame{kind: kindOffer, endpoint: sample(verbs.QPTypeRC)}).bytes()
	edit := func(f func(b []byte) []byte) []byte {
		b := f(bytes.Clone(good))
		if len(b) >= headerSize {
			binary.BigEndian.PutUint16(b[6:], uint16(len(b)-headerSize))
		}
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"nothing":       {nil, "a message of 0 bytes"},
		"half a hello":  {good[:len(good)/2], "which says that it has"},
		"half a header": {good[:5], "a message of 5 bytes"},
		"junk":          {bytes.Repeat([]byte("junk"), 16<<10), `its first bytes are "junk"`},
		"HTTP":          {[]byte("GET / HTTP/1.1\r\n\r\n"), `its first bytes are "GET "`},
		"version":       {edit(func(b []byte) []byte { b[4] = 2; return b }), "version 2, this end version 1"},
		"kind":          {edit(func(b []byte) []byte { b[5] = 9; return b }), "a message of kind 9"},
		"field twice":   {edit(func(b []byte) []byte { return append(b, 0, fieldMTU, 0, 1, 3) }), "two fields 11"},
		"field cut":     {edit(func(b []byte) []byte { return append(b, 0xff, 0, 0, 9, 1) }), "ends within field 65280"},
		"field header":  {edit(func(b []byte) []byte { return append(b, 0xff, 0) }), "ends within a field"},
		"field length":  {edit(func(b []byte) []byte { b[11] = 2; return b }), "2 bytes in field 1, want 1"},
		"no field":      {edit(func(b []byte) []byte { b[9] = 0xff; return b }), "without field 1"},
		"transport":     {change(verbs.QPTypeRawPacket, func(*Endpoint) {}), "queue pair of type RAW_PACKET"},
		"QPN 0":         {change(verbs.QPTypeRC, func(e *Endpoint) { e.QPN = 0 }), "queue pair number 0x0"},
		"QPN":           {change(verbs.QPTypeRC, func(e *Endpoint) { e.QPN = 1 << 24 }), "queue pair number 0x1000000"},
		"multicast QPN": {change(verbs.QPTypeUD, func(e *Endpoint) { e.QPN = 0xffffff }), "queue pair number 0xffffff"},
		"LID":           {change(verbs.QPTypeUD, func(e *Endpoint) { e.LID = 0xc000 }), "LID 0xc000"},
		"QPN of SRD":    {change(verbs.QPTypeSRD, func(e *Endpoint) { e.QPN = 1 << 16 }), "queue pair number 0x10000"},
		"PSN":           {change(verbs.QPTypeRC, func(e *Endpoint) { e.psn = 1 << 24 }), "sequence number 0x1000000"},
		"Q_Key":         {change(verbs.QPTypeUD, func(e *Endpoint) { e.qkey = 1 << 31 }), "Q_Key 0x80000000"},
		"Q_Key of SRD":  {change(verbs.QPTypeSRD, func(e *Endpoint) { e.qkey = 1 << 31 }), "Q_Key 0x80000000"},
		"MTU":           {change(verbs.QPTypeRC, func(e *Endpoint) { e.MTU = 9 }), "MTU of code 9"},
		"GID type":      {change(verbs.QPTypeRC, func(e *Endpoint) { e.GIDType = 3 }), "GID of type 3"},
		"GID":           {change(verbs.QPTypeRC, func(e *Endpoint) { e.GID = verbs.GID{} }), "GID ::"},
		"multicast":     {change(verbs.QPTypeRC, func(e *Endpoint) { e.GID = verbs.GID{0: 0xff} }), "GID ff00::"},
		"nonce":         {change(verbs.QPTypeRC, func(e *Endpoint) { e.nonce = 0 }), "nonce 0"},
		"READs":         {change(verbs.QPTypeRC, func(e *Endpoint) { e.readsIn = 0 }), "no READs"},
		"reason":        {append([]byte("gvob\x01\x04\x01\x05\x00\x0f\x01\x01"), make([]byte, 257)...), "257 bytes in field 15"},
		"private data":  {change(verbs.QPTypeRC, func(e *Endpoint) { e.PrivateData = make([]byte, MaxPrivateData+1) }), "32769 bytes in field 14"},
	} {
		f, err := parse(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestReason checks that the reason of a peer's refusal can't write to a terminal.
func TestReason(t *testing.T) {
	m := machine{state: awaitAnswer}
	_, err := m.receive(&frame{kind: kindRefuse, reason: "\x1b[2J"})
	if !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

// FuzzParse checks that an accepted Endpoint is marshaled and parsed to the same value.
func FuzzParse(f *testing.F) {
	for _, t := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeSRD} {
		f.Add((&frame{kind: kindOffer, endpoint: sample(t)}).bytes())
	}
	f.Add((&frame{kind: kindReady}).bytes())
	f.Add((&frame{kind: kindRefuse, reason: "no"}).bytes())
	f.Add((&frame{kind: kindBye}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := parse(b)
		streamed, streamErr := readFrame(bytes.NewReader(b))
		if err != nil {
			if _, length, headerErr := parseHeader(b); streamErr == nil && headerErr == nil && len(b) <= headerSize+length {
				t.Fatalf("%v, but from a stream %+v", err, streamed)
			}
			return
		}
		if streamErr != nil || !reflect.DeepEqual(first, streamed) {
			t.Fatalf("%+v, from a stream %+v, %v", first, streamed, streamErr)
		}
		second, err := parse(first.bytes())
		if err != nil || !bytes.Equal(first.bytes(), second.bytes()) {
			t.Fatalf("%+v, then %+v, %v", first, second, err)
		}
	})
}
