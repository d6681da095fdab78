package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How far the heap of a node may grow between collections. Most of what a node allocates is short-lived and what stays is
// small, so by default it grows to four times that: measured with 128 callers, 15 % less CPU per put than at Go's 100 %.
// But when much stays, as while a million jobs are due at once, three times as much again would be the better part of the
// memory of a small machine, so the room is limited to spareHeap, or what stays once more if that is larger.
const (
	mostPercent  = 300
	leastPercent = 100
	spareHeap    = 128 << 20
)

// collectLess sets how the heap is collected. GOGC wins; GOMEMLIMIT holds besides.
func collectLess() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostPercent)
	eachCollection(func() func(live uint64) {
		percent := mostPercent
		return func(live uint64) {
			if p := collectAt(live); p != percent {
				debug.SetGCPercent(p)
				percent = p
			}
		}
	}())
}

// collectAt is by how many percent of what is live the heap may grow, in steps, since each change stops the world.
func collectAt(live uint64) int {
	const step = 25
	return min(mostPercent, max(leastPercent, int(spareHeap*100/max(live, 1))/step*step))
}

// eachCollection calls f after every collection with what it left.
func eachCollection(f func(live uint64)) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var wait func(struct{})
	arm := func() { runtime.AddCleanup(new(*byte), wait, struct{}{}) } // nobody holds it: the next collection takes it
	wait = func(struct{}) {
		metrics.Read(sample)
		f(sample[0].Value.Uint64())
		arm()
	}
	arm()
}
