package selftest

import "github.com/goverbs/goverbs/uverbs"

// test is a line of the report. run says what it did, or why it failed.
type test struct {
	name string
	run  func(*bed) (string, error)
}

// tests are all there are. Later ones need what earlier ones try.
var tests = []test{
	{"RC SEND", messages(uverbs.QPTypeRC, uverbs.OpSend)},
	{"RC SEND with immediate", messages(uverbs.QPTypeRC, uverbs.OpSendImm)},
	{"RC WRITE", messages(uverbs.QPTypeRC, uverbs.OpRDMAWrite)},
	{"RC WRITE with immediate", messages(uverbs.QPTypeRC, uverbs.OpRDMAWriteImm)},
	{"RC READ", messages(uverbs.QPTypeRC, uverbs.OpRDMARead)},
	{"RC COMPARE_SWAP", compareSwap},
	{"RC FETCH_ADD", fetchAdd},
	{"RC lists", lists},
	{"RC fence", fence},
	{"RC in both directions", bothWays},
	{"UC SEND", messages(uverbs.QPTypeUC, uverbs.OpSend)},
	{"UC SEND with immediate", messages(uverbs.QPTypeUC, uverbs.OpSendImm)},
	{"UC WRITE", messages(uverbs.QPTypeUC, uverbs.OpRDMAWrite)},
	{"UC WRITE with immediate", messages(uverbs.QPTypeUC, uverbs.OpRDMAWriteImm)},
	{"UD SEND", messages(uverbs.QPTypeUD, uverbs.OpSend)},
	{"UD SEND with immediate", messages(uverbs.QPTypeUD, uverbs.OpSendImm)},
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
