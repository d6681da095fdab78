// Package clienttest has the tests of package client that need nodes, which are of this module.
package clienttest
