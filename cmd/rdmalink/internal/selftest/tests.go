package selftest

import "github.com/goverbs/goverbs/verbs"

// test is a line of the report. run returns a description of the result, or an
// error.
type test struct {
	name string
	run  func(*bed) (string, error)
}

// tests lists all tests. Later tests use operations that earlier ones try.
var tests = []test{
	{"RC SEND", messages(verbs.QPTypeRC, verbs.OpSend)},
	{"RC SEND with immediate", messages(verbs.QPTypeRC, verbs.OpSendImm)},
	{"RC WRITE", messages(verbs.QPTypeRC, verbs.OpRDMAWrite)},
	{"RC WRITE with immediate", messages(verbs.QPTypeRC, verbs.OpRDMAWriteImm)},
	{"RC READ", messages(verbs.QPTypeRC, verbs.OpRDMARead)},
	{"RC COMPARE_SWAP", compareSwap},
	{"RC FETCH_ADD", fetchAdd},
	{"RC lists", lists},
	{"RC fence", fence},
	{"RC in both directions", bothWays},
	{"UC SEND", messages(verbs.QPTypeUC, verbs.OpSend)},
	{"UC SEND with immediate", messages(verbs.QPTypeUC, verbs.OpSendImm)},
	{"UC WRITE", messages(verbs.QPTypeUC, verbs.OpRDMAWrite)},
	{"UC WRITE with immediate", messages(verbs.QPTypeUC, verbs.OpRDMAWriteImm)},
	{"UD SEND", messages(verbs.QPTypeUD, verbs.OpSend)},
	{"UD SEND with immediate", messages(verbs.QPTypeUD, verbs.OpSendImm)},
	{"SRQ", sharedReceives},
	{"events", events},
	{"solicited events", solicitedEvents},
	{"CQ that is resized", resize},
	{"windows of type 1", windows1},
	{"windows of type 2", windows2},
	{"a wrong key", wrongKey},
	{"flush, and a second life", secondLife},
	{"rdma_cm", byAddress},
}
