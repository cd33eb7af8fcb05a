// Package hosttest makes machines for the tests of commands.
package hosttest
