// Package conn holds what the connections of packages rdmacm and oob share: their end, and the objects that they
// close.
package conn
