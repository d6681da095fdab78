package engine

import (
	"cmp"

	"github.com/carillonhq/carillon"
)

// namespaceOf returns the namespace that a caller means: an empty name is the default namespace, as in
// package client and over gRPC.
func namespaceOf(name string) string { return cmp.Or(name, carillon.DefaultNamespace) }

// checkKey fills in the namespace of a call's key, and validates the key.
func checkKey(key *carillon.Key) error {
	key.Namespace = namespaceOf(key.Namespace)
	return key.Validate()
}

// checkPrefix validates a prefix of the names of jobs that are to be deleted.
func checkPrefix(namespace, prefix string) error {
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return err
	}
	if prefix == "" {
		return carillon.Errorf(carillon.InvalidArgument, "prefix",
			"it is empty, which would mean every job of the namespace")
	}
	return (&carillon.JobQuery{Namespace: namespace, Prefix: prefix}).Validate()
}
