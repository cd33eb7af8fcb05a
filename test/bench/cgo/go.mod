module github.com/goverbs/goverbs/test/bench/cgo

go 1.25.0

require github.com/goverbs/goverbs v0.0.0

replace github.com/goverbs/goverbs => ../../..
