// Package storetest is the conformance suite of package store: a store that passes it keeps the contract.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) store.Store { return memory.New(memory.Options{}) })
//	}
//
// A store that outlives its process says in [Options] how it is opened again, and the suite checks what is
// durable too.
//
// Each [Case] is a sentence of the contract and opens a store of its own. A case talks to a testing.TB, so
// that a test of the suite can watch it fail: the files broken_*_test.go hold stores with one fault each, and
// the case that must catch it.
//
//	storetest.go   Options, Run, Case
//	env.go         what a case works with: a store, shards, short calls
//	records.go     how cases make records, and compare them
//	batch.go …     the cases, by part of the contract
//	model.go       a naive store that the random cases compare with
package storetest
