// Package exchange is the flow that this project began with: a server and a
// client announce the addresses of their memory, then data moves without the
// server's CPU. The client writes a pattern into the server's memory, reads it
// back and compares.
//
// It is the README's example, what `make demo` runs, and a test.
package exchange
