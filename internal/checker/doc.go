// Package checker judges what a scheduler did, from what others saw of it: clients, workers, the nemesis, the store.
//
// [Check] is a pure function of a [History] and a [Spec]. The same function judges the simulation, real processes and soaks,
// so nothing here imports the product: times, words and small structs only. What a schedule, a zone, a failure policy or a
// misfire rule means is written down a second time, naively, and held against what happened.
//
// A harness writes into a [Recorder] while it runs, reads what is left at the end into [Final], and asks for a verdict:
//
//	rec := checker.NewRecorder("chaos", seed, build, checker.Constants{Dispatch: time.Second}, nil)
//	done := rec.Begin(checker.Op{Kind: checker.Put, Namespace: "default", Job: "a", Spec: &spec})
//	…
//	done(checker.OK, func(o *checker.Op) { o.Answer.Generation = 1 })
//	…
//	v := checker.Check(rec.History(), checker.Spec{})
//	if v.Result == checker.Failed { … }
//
// All times are those of the harness, never of a node whose clock may be wrong. A payload is compared by its hash, whatever
// hash the harness takes.
package checker
