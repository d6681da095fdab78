package engine

import (
	"cmp"

	"github.com/carillonhq/carillon"
)

// namespaceOf is the namespace that a caller means: an empty one is the default one, as in package client and over gRPC.
func namespaceOf(name string) string { return cmp.Or(name, carillon.DefaultNamespace) }

// checkKey gives the key of a call the namespace that is meant, and checks it.
func checkKey(key *carillon.Key) error {
	key.Namespace = namespaceOf(key.Namespace)
	return carillon.ValidateKey(*key)
}
