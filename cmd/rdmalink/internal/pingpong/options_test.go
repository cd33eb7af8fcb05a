package pingpong

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

func kindOf(name string) *Kind {
	i := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Name == name })
	return Kinds[i]
}

func TestPingpongOptions(t *testing.T) {
	base := options{tcpPort: 18515, ibPort: 1, size: 4096, mtu: verbs.MTU1024, rxDepth: 500, iters: 1000, gid: -1, qpCount: 1}
	with := func(change func(*options)) options { o := base; change(&o); return o }
	for line, want := range map[string]options{
		"rc":            base,
		"uc":            base,
		"ud":            with(func(o *options) { o.size = 1024 }),
		"srq":           with(func(o *options) { o.qpCount = 16 }),
		"rc fd81::1":    with(func(o *options) { o.host = "fd81::1" }),
		"rc -- host":    with(func(o *options) { o.host = "host" }),
		"uc -p 1 h -s2": with(func(o *options) { o.host, o.tcpPort, o.size = "h", 1, 2 }),
		"rc -ecoPj -d rxe0 -i 2 -m 4096 -r 0x10 -n 5 -l 15 -g 0": with(func(o *options) {
			o.events, o.validate, o.odp, o.prefetch, o.asJSON, o.device, o.ibPort = true, true, true, true, true, "rxe0", 2
			o.mtu, o.rxDepth, o.iters, o.sl, o.gid = verbs.MTU4096, 16, 5, 15, 0
		}),
		"ud -ecg1 h": with(func(o *options) { o.size, o.events, o.validate, o.gid, o.host = 1024, true, true, 1, "h" }),
		"srq --port=1 --ib-dev rxe0 --ib-port=2 --size=3 --mtu=256 --num-qp=255 --rx-depth 255 --iters=6 --sl=7 --events --gid-idx=8 --odp --chk --json h": {
			tcpPort: 1, device: "rxe0", ibPort: 2, size: 3, mtu: verbs.MTU256, qpCount: 255, rxDepth: 255, iters: 6, sl: 7,
			events: true, gid: 8, odp: true, validate: true, asJSON: true, host: "h",
		},
	} {
		words := strings.Fields(line)
		got, err := parse(kindOf(words[0]), words[1:])
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
}

func TestPingpongUsageErrors(t *testing.T) {
	const srqWords = "expected one of -p, -d, -i, -s, -m, -q, -r, -n, -l, -e, -g, -o, -c, -j"
	const srqLong = "expected one of --port, --ib-dev, --ib-port, --size, --mtu, --num-qp, --rx-depth, --iters, --sl, --events, --gid-idx, --odp, --chk, --json"
	for line, want := range map[string]string{
		"rc a b":               `unexpected argument "b"`,
		"rc -- a b":            `unexpected argument "b"`,
		"rc -p":                "expected -p PORT",
		"rc --port":            "expected --port PORT",
		"rc --port=":           `"": the port must be a number from 1 to 65535`,
		"rc -p 0":              `"0": the port must be a number from 1 to 65535`,
		"rc -p 65536":          `"65536": the port must be a number from 1 to 65535`,
		"rc -i 0":              `"0": the device port must be a number from 1 to 255`,
		"rc -s 0":              `"0": the size must be a number from 1 to 2147483647`,
		"rc -s 4k":             `"4k": the size must be a number from 1 to 2147483647`,
		"rc -m 1500":           `"1500": expected one of 256, 512, 1024, 2048, 4096`,
		"rc -r 0":              `"0": the number of receives must be a number from 1 to 2147483647`,
		"rc -n -1":             `"-1": the number of exchanges must be a number from 1 to 2147483647`,
		"rc -l 16":             `"16": the service level must be a number from 0 to 15`,
		"rc -g -1":             `"-1": the GID index must be a number from 0 to 255`,
		"srq -q 256":           `"256": the number of QPs must be a number from 1 to 255`,
		"srq -q 20 -r 19":      "-r 19 is too small for 20 QPs: each QP needs a receive",
		"srq -x":               `"-x": ` + srqWords,
		"srq --events=1":       "--events takes no value",
		"srq --dm":             `"--dm": ` + srqLong,
		"srq -eN":              `"-N": ` + srqWords,
		"rc -q 2":              `"-q": ` + strings.NewReplacer(" -q,", "", " -o,", " -o, -P,").Replace(srqWords),
		"rc -P":                "-P needs -o",
		"srq -oP":              `"-P": ` + srqWords,
		"uc -o":                `"-o": ` + strings.NewReplacer(" -q,", "", " -o,", "").Replace(srqWords),
		"ud -m 1024":           `"-m": ` + strings.NewReplacer(" -q,", "", " -o,", "", " -m,", "").Replace(srqWords),
		"srq --num-qp 1 --num": `"--num": ` + srqLong,
	} {
		words := strings.Fields(line)
		_, err := parse(kindOf(words[0]), words[1:])
		var usage cli.UsageError
		if !errors.As(err, &usage) || usage.Text != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestPingpongDetails checks that the help lists the options.
func TestPingpongDetails(t *testing.T) {
	for _, k := range Kinds {
		for _, o := range table {
			if has := strings.Contains(k.Details(), "--"+o.Long); has == strings.Contains(k.without, string(o.Letter)) {
				t.Errorf("%s: --%s in the help: %t\n%s", k.Name, o.Long, has, k.Details())
			}
		}
	}
}

// FuzzPingpongOptions checks that all accepted options are within the limits.
func FuzzPingpongOptions(f *testing.F) {
	for _, line := range []string{"", "-p 1 h", "-ecs1", "--size=99999999999999999999", "-q 255 -r 254", "--", "-", "-n 0x7fffffff"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, k := range Kinds {
			o, err := parse(k, strings.Fields(line))
			if err == nil && (o.tcpPort < 1 || o.tcpPort > 65535 || o.size < 1 || o.iters < 1 || o.qpCount < 1 || o.qpCount > o.rxDepth ||
				o.qpCount >= maxQP || o.gid < -1 || o.gid > 255 || o.mtu.Bytes() == 0 || o.sl < 0 || o.sl > 15) {
				t.Errorf("%s %q: %+v", k.Name, line, o)
			}
		}
	})
}
