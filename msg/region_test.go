package msg

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"errors"
	"testing"
)

var (
	_ encoding.BinaryMarshaler   = RemoteRegion{}
	_ encoding.BinaryUnmarshaler = &RemoteRegion{}
)

func TestRemoteRegion(t *testing.T) {
	r := RemoteRegion{Addr: 0x0102030405060708, Length: 0x1000, RKey: 0x11121314, Rights: MayRead | MayAtomic}
	b, err := r.MarshalBinary()
	if want := "0807060504030201" + "0010000000000000" + "14131211" + "01050000"; hex.EncodeToString(b) != want || err != nil {
		t.Errorf("%x, %v", b, err)
	}
	var got RemoteRegion
	if err := got.UnmarshalBinary(b); err != nil || got != r {
		t.Error(got, err)
	}
	for _, test := range []struct {
		off, n uint64
		right  Rights
		ok     bool
	}{
		{0, 0x1000, MayRead, true}, {0x1000, 0, MayRead, true}, {0xfff, 1, MayAtomic, true}, {0, 1, 0, true},
		{0, 0x1001, MayRead, false}, {0x1001, 0, MayRead, false}, {1, 1<<64 - 1, MayRead, false}, {1<<64 - 1, 2, MayRead, false},
		{0, 1, MayWrite, false}, {0, 1, MayRead | MayWrite, false},
	} {
		if err := r.check(test.off, test.n, test.right); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrOutOfBounds) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	s, err := r.Slice(0x100, 0x10)
	if err != nil || s.Addr != r.Addr+0x100 || s.Length != 0x10 || s.RKey != r.RKey || s.Rights != r.Rights {
		t.Error(s, err)
	}
}

func FuzzRemoteRegion(f *testing.F) {
	good, _ := RemoteRegion{1 << 40, 1 << 20, 77, MayRead}.MarshalBinary()
	wraps, _ := RemoteRegion{1<<64 - 1, 2, 77, MayRead}.MarshalBinary()
	f.Add(good)
	f.Add(wraps)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r RemoteRegion
		if r.UnmarshalBinary(b) != nil {
			if r != (RemoteRegion{}) {
				t.Error("changed by what was refused:", r)
			}
			return
		}
		if again, _ := r.MarshalBinary(); !bytes.Equal(again, b) || r.Addr+r.Length < r.Addr {
			t.Errorf("%x became %+v", b, r)
		}
	})
}
