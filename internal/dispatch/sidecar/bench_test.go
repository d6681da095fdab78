package sidecar

import "testing"

// BenchmarkRuns takes 20,000 runs that are due at once through one stream, in rounds of 512, and answers
// them; figures are of one run.
func BenchmarkRuns(b *testing.B) {
	const n, round = 20_000, 512
	d := newFakeSink()
	s := d.open(b, Hello{Jobs: true}, Options{})
	defer s.Close()
	ds := runs(app, 0, n, 100)
	b.ReportAllocs()
	for done := 0; done < b.N; done += n {
		for i := 0; i < n; i += round {
			d.hub.Deliver(ds[i:min(i+round, n)])
		}
		for got := 0; got < n; {
			for _, r := range receive(b, s) {
				result(b, s, r.ID, true, "")
				got++
			}
		}
		d.reports = d.reports[:0]
	}
}
