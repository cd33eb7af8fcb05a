module github.com/goverbs/goverbs/examples/grpc

go 1.25.0

require (
	github.com/goverbs/goverbs v0.0.0
	google.golang.org/grpc v1.79.3
)

require (
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace github.com/goverbs/goverbs => ../..
