// Package hosttest has fake machines for the tests of commands.
package hosttest
