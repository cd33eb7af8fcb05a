package rdma

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// printer prints objects exactly as iproute2 does. As text, an object is a line of
// "key value " pairs. As JSON, the objects are an array, in one line or pretty with
// the line breaks of iproute2's json_writer. One call prints a field in both forms.
type printer struct {
	out          *bufio.Writer
	json, pretty bool
	oneline      bool              // in text: a backslash replaces a line break
	b            []byte            // the current object; as JSON it begins with a comma
	fields       int               // that the current object has so far
	single       bool              // prints one object, outside of an array
	begun        bool              // an object was printed
	held         map[uint32][]byte // the objects that wait for flush, by place
}

func newPrinter(t *cli.Tool) *printer {
	return &printer{out: bufio.NewWriterSize(t.Stdout, 32<<10), json: t.JSON, pretty: t.Pretty, oneline: t.Oneline, held: make(map[uint32][]byte)}
}

// space prints the blank of pretty JSON.
func (p *printer) space() {
	if p.pretty {
		p.out.WriteByte(' ')
	}
}

// close ends the output and joins err, the error of the command. After an error it prints the end of JSON that was
// begun, so that it stays valid, but no list of nothing, which would mean that there is nothing.
func (p *printer) close(err error) error {
	switch {
	case !p.json || !p.begun && err != nil:
	case p.begun:
		p.space()
		p.out.WriteString("]\n")
	default:
		p.out.WriteString("[")
		p.space()
		p.out.WriteString("]\n")
	}
	return errors.Join(err, p.out.Flush())
}

// begin starts an object.
func (p *printer) begin() {
	p.b, p.fields = p.b[:0], 0
	if p.json {
		p.b = append(p.b, ",{"...)
	}
}

// end prints the object. If place is not 0, flush prints it.
func (p *printer) end(place uint32) {
	switch {
	case !p.json:
		p.b = append(p.b, '\n')
	case p.pretty:
		p.b = append(p.b, "\n    }"...)
	default:
		p.b = append(p.b, '}')
	}
	if place != 0 {
		p.held[place] = append(p.held[place], p.b...)
		return
	}
	p.write(p.b)
}

func (p *printer) write(objects []byte) {
	if p.json && !p.begun {
		if !p.single {
			p.out.WriteString("[")
			p.space()
		}
		objects = objects[1:]
	}
	p.out.Write(objects)
	p.begun = true
}

// flush prints the objects with a place, in the order of their places.
func (p *printer) flush() {
	for _, place := range slices.Sorted(maps.Keys(p.held)) {
		p.write(p.held[place])
	}
	clear(p.held)
}

// name begins a field.
func (p *printer) name(key string) {
	if !p.json {
		p.b = append(append(p.b, key...), ' ')
		return
	}
	if p.fields++; p.fields > 1 {
		p.b = append(p.b, ',')
	}
	if p.pretty {
		p.b = append(p.b, "\n        "...)
	}
	p.b = append(cli.AppendJSON(p.b, key), ':')
	if p.pretty {
		p.b = append(p.b, ' ')
	}
}

// done ends a field.
func (p *printer) done() {
	if !p.json {
		p.b = append(p.b, ' ')
	}
}

// text prints s in text only.
func (p *printer) text(s string) {
	if !p.json {
		p.b = append(p.b, cli.Printable(s)...)
	}
}

// newline continues the object on a new line, in text only.
func (p *printer) newline() {
	switch {
	case p.json:
	case p.oneline:
		p.b = append(p.b, "\\    "...)
	default:
		p.b = append(p.b, "\n    "...)
	}
}

func (p *printer) number(v uint64) { p.b = strconv.AppendUint(p.b, v, 10) }

func (p *printer) uint(key string, v uint64) {
	p.name(key)
	p.number(v)
	p.done()
}

func (p *printer) int(key string, v int64) {
	p.name(key)
	p.b = strconv.AppendInt(p.b, v, 10)
	p.done()
}

func (p *printer) word(key, v string) {
	p.name(key)
	p.value(v)
	p.done()
}

// wordIf prints a field unless it is empty.
func (p *printer) wordIf(key, v string) {
	if v != "" {
		p.word(key, v)
	}
}

func (p *printer) value(v string) {
	if p.json {
		p.b = cli.AppendJSON(p.b, v)
	} else {
		p.b = append(p.b, cli.Printable(v)...)
	}
}

// hex prints 0x12 in text and "12" in JSON.
func (p *printer) hex(key string, v uint64) {
	p.name(key)
	if p.json {
		p.b = append(strconv.AppendUint(append(p.b, '"'), v, 16), '"')
	} else {
		p.b = strconv.AppendUint(append(p.b, "0x"...), v, 16)
	}
	p.done()
}

// onOff prints on or off in text and true or false in JSON.
func (p *printer) onOff(key string, v bool) {
	p.name(key)
	switch {
	case p.json:
		p.b = strconv.AppendBool(p.b, v)
	case v:
		p.b = append(p.b, "on"...)
	default:
		p.b = append(p.b, "off"...)
	}
	p.done()
}

// list prints 1,2,3 in text and an array in JSON.
func (p *printer) list(key string, n int, element func(i int)) {
	p.name(key)
	p.syntax("[", "[ ")
	for i := range n {
		if i > 0 {
			p.b = append(p.b, ',')
		}
		element(i)
	}
	if n > 0 {
		p.syntax("", " ")
	}
	p.syntax("]", "]")
	p.done()
}

// syntax prints in JSON only: line, or pretty.
func (p *printer) syntax(line, pretty string) {
	switch {
	case !p.json:
	case p.pretty:
		p.b = append(p.b, pretty...)
	default:
		p.b = append(p.b, line...)
	}
}

// caps prints the names of the bits that are set, in text on a line of their own. A bit
// without a name is printed as a number.
func (p *printer) caps(flags uint64, bitNames []string) {
	var all []string
	for ; flags != 0; flags &= flags - 1 {
		bit := bits.TrailingZeros64(flags)
		if bit < len(bitNames) && bitNames[bit] != "" {
			all = append(all, bitNames[bit])
		} else {
			all = append(all, fmt.Sprintf("BIT(%d)", bit))
		}
	}
	if p.json {
		p.list("caps", len(all), func(i int) { p.value(all[i]) })
		return
	}
	p.newline()
	p.text("caps: <" + strings.Join(all, ", ") + ">")
}

// deviceCapNames are iproute2's names, including its misspellings. iproute2 has no names for
// bits 38 to 41 yet.
var deviceCapNames = [...]string{
	0: "RESIZE_MAX_WR", 1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 3: "RAW_MULTI",
	4: "AUTO_PATH_MIG", 5: "CHANGE_PHY_PORT", 6: "UD_AV_PORT_ENFORCE_PORT_ENFORCE", 7: "CURR_QP_STATE_MOD",
	8: "SHUTDOWN_PORT", 9: "INIT_TYPE", 10: "PORT_ACTIVE_EVENT", 11: "SYS_IMAGE_GUID",
	12: "RC_RNR_NAK_GEN", 13: "SRQ_RESIZE", 14: "N_NOTIFY_CQ", 15: "LOCAL_DMA_LKEY",
	17: "MEM_WINDOW", 18: "UD_IP_CSUM", 19: "UD_TSO",
	20: "XRC", 21: "MEM_MGT_EXTENSIONS", 22: "BLOCK_MULTICAST_LOOPBACK", 23: "MEM_WINDOW_TYPE_2A",
	24: "MEM_WINDOW_TYPE_2B", 25: "RC_IP_CSUM", 26: "RAW_IP_CSUM", 27: "CROSS_CHANNEL",
	29: "MANAGED_FLOW_STEERING", 30: "SIGNATURE_HANDOVER", 31: "ON_DEMAND_PAGING",
	32: "SG_GAPS_REG", 33: "VIRTUAL_FUNCTION", 34: "RAW_SCATTER_FCS", 35: "RDMA_NETDEV_OPA_VNIC",
	36: "PCI_WRITE_END_PADDING", 38: "FLUSH_GLOBAL", 39: "FLUSH_PERSISTENT", 40: "ATOMIC_WRITE", 41: "CC_DMA_BOUNCE",
}

var portCapNames = [...]string{
	0: "RESERVED", 1: "SM", 2: "NOTICE", 3: "TRAP",
	4: "OPT_IPD", 5: "AUTO_MIGR", 6: "SL_MAP", 7: "MKEY_NVRAM",
	8: "PKEY_NVRAM", 9: "LED_INFO", 10: "SM_DISABLED", 11: "SYS_IMAGE_GUID",
	12: "PKEY_SW_EXT_PORT_TRAP", 13: "CABLE_INFO", 14: "EXTENDED_SPEEDS", 15: "CAP_MASK2",
	16: "CM", 17: "SNMP_TUNNEL", 18: "REINIT", 19: "DEVICE_MGMT",
	20: "VENDOR_CLASS", 21: "DR_NOTICE", 22: "CAP_MASK_NOTICE", 23: "BOOT_MGMT",
	24: "LINK_LATENCY", 25: "CLIENT_REG", 26: "OTHER_LOCAL_CHANGES", 27: "LINK_SPPED_WIDTH",
	28: "VENDOR_SPECIFIC_MADS", 29: "MULT_PKER_TRAP", 30: "MULT_FDB", 31: "HIERARCHY_INFO",
	32: "SET_NODE_DESC", 33: "EXT_INFO", 34: "VIRT", 35: "SWITCH_POR_STATE_TABLE",
	36: "LINK_WIDTH_2X", 37: "LINK_SPEED_HDR",
}
