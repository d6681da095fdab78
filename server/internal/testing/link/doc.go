// Package link is a network link for tests and benchmarks: a TCP proxy that can be slow, silent or broken,
// and whole again.
//
//	l, err := link.Listen("127.0.0.1:5432", link.Options{})
//	…                             // clients connect to l.Address()
//	l.Delay(5 * time.Millisecond) // each way
//	l.Cut(link.Silent)            // nothing passes, and nobody is told
//	l.CutWay(link.Back, link.Broken) // what is asked arrives, and the answer never does
//	l.Heal()                      // what was sent meanwhile arrives
//
// A silent link behaves as a network that drops packets does as long as TCP keeps trying: what was sent
// before and during the cut arrives after it has healed, in order, unless one side gave up. A new connection
// seems to be made, as the proxy itself takes it, and then hears nothing.
//
//	link.go   the link: listening, faults
//	flow.go   what passes a connection in one direction
package link
