package netlinkrdma

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

var frmrGoldens = []golden{
	{"FRMR pool", parses(parseFRMRPool),
		attr(nestedFlag|107, attr(108, "\x01")+attr(109, u32(0xf))+attr(0, "")+attr(110, u64(1<<63))+attr(0, "")+attr(111, u64(1<<12))+attr(117, u64(5))) +
			attr(112, u32(1<<31)) + attr(113, u64(1<<40)) + attr(0, "") + attr(114, u64(1<<39)) + attr(116, u32(7)),
		FRMRPool{
			Key: FRMRPoolKey{VendorKey: 1 << 63, DMABlocks: 1 << 12, AccessFlags: 0xf, ATS: true}, KernelVendorKey: 5,
			Queued: 1 << 31, MaxInUse: 1 << 40, InUse: 1 << 39, Pinned: 7,
		}, nestedFlag | 107},
	{"FRMR pool with strange ones in its key", parses(parseFRMRPool),
		attr(nestedFlag|107, attr(108, "\x00")+attr(4000, "?")+attr(109, u32(0))) + attr(112, u32(0)) + attr(113, u64(0)) + attr(114, u64(0)) + attr(116, u32(0)),
		FRMRPool{}, 116},
}

func TestMalformedFRMRPools(t *testing.T) {
	rest := attr(112, u32(0)) + attr(113, u64(0)) + attr(114, u64(0)) + attr(116, u32(0))
	for want, attrs := range map[string]string{
		"in FRMR_POOL_KEY: malformed netlink reply: attribute FRMR_POOL_KEY_ATS has 4 bytes, want 1": attr(107, attr(108, u32(1))) + rest,
		"FRMR_POOL_KEY_VENDOR_KEY has 4 bytes, want 8":                                               attr(107, attr(110, u32(1))) + rest,
		"no attribute FRMR_POOL_KEY":                                                                 rest,
		"no attribute FRMR_POOL_QUEUE_HANDLES":                                                       attr(107, "") + rest[8:],
	} {
		if _, err := parses(parseFRMRPool)([]byte(attrs)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFRMRPoolKey(t *testing.T) {
	for text, want := range map[string]FRMRPoolKey{
		"0:0:0:0":                    {},
		"0:1000:0:1":                 {DMABlocks: 0x1000, ATS: true},
		"0xF:0x1:ffffffff:00":        {VendorKey: 15, DMABlocks: 1, AccessFlags: 1<<32 - 1},
		"ffffffffffffffff:1:2:1:0:0": {VendorKey: 1<<64 - 1, DMABlocks: 1, AccessFlags: 2, ATS: true},
	} {
		got, err := ParseFRMRPoolKey(text)
		if again, err2 := ParseFRMRPoolKey(got.String()); err != nil || err2 != nil || got != want || again != want {
			t.Errorf("%s: %+v, %v, %+v, %v", text, got, err, again, err2)
		}
	}
	for text, want := range map[string]string{
		"":                        "it has four fields, VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS",
		"0:0:0":                   "it has four fields",
		"0:0:0:":                  `"" is no number`,
		"x:0:0:0":                 `"x" is no number`,
		"-1:0:0:0":                `"-1" is no number`,
		"10000000000000000:0:0:0": `"10000000000000000" is no number of 64 bits`,
		"0:0:100000000:0":         `"100000000" has more than 32 bits`,
		"0:0:0:2":                 `"2" has more than 1 bits`,
		"0:0:0:0:1":               `"1" has more than 0 bits`,
	} {
		if _, err := ParseFRMRPoolKey(text); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzFRMRPoolKey: what is taken is given again.
func FuzzFRMRPoolKey(f *testing.F) {
	f.Add("0:1000:f:1")
	f.Add("0xffffffffffffffff:0:ffffffff:0:0")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseFRMRPoolKey(text)
		if err != nil {
			return
		}
		if again, err := ParseFRMRPoolKey(k.String()); err != nil || again != k {
			t.Fatalf("%q: %+v, then %+v, %v", text, k, again, err)
		}
	})
}
