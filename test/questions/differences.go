package questions

import "regexp"

// differences are the questions that a device in software may answer in another way than Linux 6.12,
// with the reasons.
var differences = []difference{
	{of(`(rxe|siw) region: private write-only, access 0x4`), "the sandbox goes by the rights in the list of mappings; the processor can read what it can write"},
	{of(`rxe region: private, access 0x200`), "Linux gives this right for persistent memory only, which the sandbox does not know from other memory"},
	{of(`(rxe|siw) unmapped: (READ of|WRITE to) (unmapped private memory|discarded private memory|private memory mapped anew)`), "the sandbox does not pin: it has the memory of a process only while it is mapped"},
	{of(`siw device: port: max_mtu`), "it is the network interface's largest MTU, and the dummy interface of the guests has none"},
	{of(`siw opcodes: READ (of nothing )?fenced`), "the sandbox carries out the READ and reports the mistake at the end"},
	{of(`(rxe|siw) id: bind to (127.0.0.1|0.0.0.0)`), "the sandbox has one device, which has all addresses"},
	{of(`siw id: TCP bind to the port of a listener`), tcp},
	{of(`siw TCP port: listen on the port of a TCP listener`), tcp},
	{of(`(rxe|siw) file: command (8 of no bytes|12 of no bytes|18 of no bytes|18 of 512 zeros)`), "the sandbox does not tell commands that are too short from those with zeros"},
	{of(`(rxe|siw) file: poll`), "the file is a pipe, which can be written to"},
	{of(`(rxe|siw) resolve: resolve_addr of (203.0.113.77|255.255.255.255|224.0.0.5)`), "the kernel's guest has no route to anywhere else; with one, the answer is the model's"},
	{of(`(rxe|siw) removed: in use, resolve_addr of a new ID`), "the sandbox gives each ID the address of its host, and one with an address fails at once"},
	{of(`(rxe|siw) link: .*`), "a device of the sandbox has no network interface to take down"},
	{of(`siw resolve: resolve_addr of (127.0.0.1|0.0.0.0)`), "in the sandbox, these are the machine's own address"},
}

const tcp = "the addresses of the sandbox are not the machine's: no TCP socket has a port of theirs"

type difference struct {
	questions *regexp.Regexp // of the kind of device and the question
	why       string
}

func of(question string) *regexp.Regexp {
	return regexp.MustCompile("^(" + question + ")(: requester)?$")
}
