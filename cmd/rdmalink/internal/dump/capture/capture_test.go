package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1700000000, 123456789)

// written is a file of two packets, of which the second was captured in part.
func written(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, 113)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Record{{Time: at, Data: []byte("one"), Full: 3}, {Time: at.Add(time.Second), Data: []byte("tw"), Full: 300}} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// swapped is a pcap file of the other byte order, with microseconds.
func swapped() []byte {
	b := binary.BigEndian.AppendUint32(nil, magicMicros)
	b = append(b, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x14, 0, 0, 1) // with a length of the FCS
	for _, v := range []uint32{1700000000, 123456, 1, 1} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, 'x')
}

// block returns a block of a pcapng file.
func block(order binary.AppendByteOrder, kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, uint32(len(body)+12))
	b = append(b, body...)
	return order.AppendUint32(b, uint32(len(body)+12))
}

// sections is a pcapng file with two sections, of either byte order: an interface with
// nanoseconds, one with powers of two, packets of both kinds, and an unknown block.
func sections() []byte {
	var file []byte
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		words := func(all ...uint32) (b []byte) {
			for _, v := range all {
				b = order.AppendUint32(b, v)
			}
			return b
		}
		halves := func(all ...uint16) (b []byte) {
			for _, v := range all {
				b = order.AppendUint16(b, v)
			}
			return b
		}
		file = append(file, block(order, blockSection, append(words(byteOrderMagic), append(halves(1, 0), words(1<<32-1, 1<<32-1)...)...))...)
		nanos := append(halves(1, 0), words(2)...)
		nanos = append(nanos, append(halves(9, 1), 9, 0, 0, 0)...)
		file = append(file, block(order, blockInterface, append(nanos, halves(0, 0)...))...)
		binaryTime := append(halves(101, 0), words(0)...)
		file = append(file, block(order, blockInterface, append(binaryTime, append(halves(9, 1), 0x80|10, 0, 0, 0)...))...)
		stamp := uint64(at.UnixNano())
		file = append(file, block(order, 0x99, []byte("what nobody knows"))...)
		file = append(file, block(order, blockEnhanced, append(words(0, uint32(stamp>>32), uint32(stamp), 5, 9), "hello"...))...)
		stamp = 1700000000<<10 | 512
		file = append(file, block(order, blockEnhanced, append(words(1, uint32(stamp>>32), uint32(stamp), 1, 1), 'x'))...)
		stamp = uint64(at.UnixNano())
		file = append(file, block(order, blockPacket, append(append(halves(0, 3), words(uint32(stamp>>32), uint32(stamp), 5, 9)...), "older"...))...)
		file = append(file, block(order, blockSimple, append(words(4), "four"...))...)
	}
	return file
}

func records(b []byte) (all []Record, err error) {
	source, err := Open(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for {
		r, err := source.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		r.Data = bytes.Clone(r.Data)
		all = append(all, r)
	}
}

func TestFiles(t *testing.T) {
	half := time.Unix(1700000000, 5e8)
	section := []Record{{at, 1, []byte("hello"), 9}, {half, 101, []byte("x"), 1}, {at, 1, []byte("older"), 9}, {time.Unix(0, 0), 1, []byte("fo"), 4}}
	for name, test := range map[string]struct {
		file []byte
		want []Record
	}{
		"own":    {written(t), []Record{{at, 113, []byte("one"), 3}, {at.Add(time.Second), 113, []byte("tw"), 300}}},
		"pcap":   {swapped(), []Record{{at.Truncate(time.Microsecond), 1, []byte("x"), 1}}},
		"pcapng": {sections(), append(section, section...)},
	} {
		got, err := records(test.file)
		if err != nil || len(got) != len(test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, want := range test.want {
			if r := got[i]; !r.Time.Equal(want.Time) || r.Link != want.Link || !bytes.Equal(r.Data, want.Data) || r.Full != want.Full {
				t.Errorf("%s: %+v, want %+v", name, r, want)
			}
		}
	}
}

// TestDamaged checks the errors for a truncated file and for one with absurd lengths.
func TestDamaged(t *testing.T) {
	for _, file := range [][]byte{written(t), swapped()} {
		if _, err := records(file[:len(file)-1]); !errors.Is(err, errCorrupt) {
			t.Error(err)
		}
	}
	whole := sections()
	if _, err := records(whole[:len(whole)-1]); !errors.Is(err, errCorrupt) {
		t.Error(err)
	}
	long := written(t)
	long[24+8+3] = 0xff
	if _, err := records(long); !errors.Is(err, errLong) {
		t.Error(err)
	}
	for _, text := range []string{"", "abc", "neither of them"} {
		if _, err := records([]byte(text)); !errors.Is(err, errUnknown) {
			t.Error(err)
		}
	}
	other := block(binary.LittleEndian, blockEnhanced, make([]byte, 20)) // of no interface
	section := whole[:28]
	if _, err := records(append(bytes.Clone(section), other...)); !errors.Is(err, errCorrupt) {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("a bad disk") }

func TestReadError(t *testing.T) {
	if _, err := Open(failing{}); err == nil || !strings.Contains(err.Error(), "a bad disk") {
		t.Error(err)
	}
}

// FuzzOpen checks that no file causes a panic, or yields a packet longer than the
// file.
func FuzzOpen(f *testing.F) {
	for _, seed := range [][]byte{written(f), swapped(), sections()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		all, _ := records(file)
		for _, r := range all {
			if len(r.Data) > len(file) {
				t.Error("more than there is")
			}
		}
	})
}
