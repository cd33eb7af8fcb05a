package perfcmd

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// options are the rows that hold for the kind. Each notes that it was given.
func (k Kind) options() (all cli.Getopt[options]) {
	for _, row := range table {
		if row.has != nil && !row.has(k) {
			continue
		}
		o := row.option
		o.Set = func(to *options, value string) error {
			to.given[o.Long] = true
			return row.Set(to, value)
		}
		all = append(all, &o)
	}
	return all
}

// parser has also the rows of perftest's options that are refused.
func (k Kind) parser() cli.Getopt[options] {
	all := k.options()
	for _, row := range refused {
		if row.has == nil || row.has(k) {
			all = append(all, row.row())
		}
	}
	return all
}

func setAtomic(o *options, value string) error {
	switch value {
	case "FETCH_AND_ADD":
		o.Atomic = verbs.OpFetchAdd
	case "CMP_AND_SWAP":
		o.Atomic = verbs.OpCompareSwap
	default:
		return cli.Expected(value, "FETCH_AND_ADD", "CMP_AND_SWAP")
	}
	return nil
}

func setConnection(o *options, value string) error {
	types := map[string]verbs.QPType{"RC": verbs.QPTypeRC, "UC": verbs.QPTypeUC, "UD": verbs.QPTypeUD}
	typ, ok := types[value]
	if !ok {
		return cli.Expected(value, "RC", "UC", "UD")
	}
	o.Type = typ
	return nil
}

func setSize(o *options, value string) error {
	text, factor := value, 1
	for suffix, f := range map[string]int{"K": 1 << 10, "M": 1 << 20} {
		if cut, ok := strings.CutSuffix(value, suffix); ok {
			text, factor = cut, f
		}
	}
	n, err := strconv.ParseInt(text, 0, 32)
	if err != nil || n < 1 || n > math.MaxInt32/int64(factor) {
		return cli.UsageError{Text: strconv.Quote(value) + ": the size is a number from 1 to 2147483647, or one with K or M behind it"}
	}
	o.Size = int(n) * factor
	return nil
}

func setLink(o *options, value string) error {
	switch value {
	case "IB":
		o.Link = verbs.LinkInfiniBand
	case "Ethernet":
		o.Link = verbs.LinkEthernet
	default:
		return cli.Expected(value, "IB", "Ethernet")
	}
	return nil
}

// limit takes the least of a figure that is good enough.
func limit(what string, field func(*options) *float64) func(*options, string) error {
	return func(o *options, value string) error {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n > 0 && n <= math.MaxFloat32) {
			return cli.UsageError{Text: strconv.Quote(value) + ": the " + what + " is a number above 0"}
		}
		*field(o) = n
		return nil
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// complete converts values that the engine takes in another type.
func (o *options) complete() {
	o.Role = perftest.Client
	if o.host == "" {
		o.Role = perftest.Server
	}
	o.Port, o.SL, o.TrafficClass, o.QPTimeout = uint32(o.ibPort), uint8(o.sl), uint8(o.tclass), uint8(o.qpTimeout)
	o.HopLimit, o.PKeyIndex, o.DLID, o.CompVector = uint8(o.hopLimit), uint32(o.pkeyIndex), uint16(o.dlid), uint32(o.vector)
	o.Time, o.Margin, o.WaitDestroy = seconds(o.duration), seconds(o.margin), seconds(o.waitDestroy)
	if o.RetryCount = o.retryCount; o.given["retry_count"] && o.retryCount == 0 {
		o.RetryCount = -1 // none
	}
}
