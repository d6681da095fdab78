package store

import "testing"

func BenchmarkEncodeSpec(b *testing.B) {
	job := sampleJob()
	b.ReportAllocs()
	for b.Loop() {
		EncodeSpec(&job)
	}
	b.ReportMetric(float64(len(EncodeSpec(&job))), "bytes")
}

func BenchmarkDecodeSpec(b *testing.B) {
	job := sampleJob()
	spec := EncodeSpec(&job)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSpec(spec, job.Key()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatchLabel(b *testing.B) {
	job := sampleJob()
	spec := EncodeSpec(&job)
	b.ReportAllocs()
	for b.Loop() {
		MatchLabel(spec, "team=billing")
	}
}

func BenchmarkAppendState(b *testing.B) {
	state := sampleState()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = state.Append(buf[:0])
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecodeState(b *testing.B) {
	state := sampleState()
	buf := state.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeState(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRun(b *testing.B) {
	run := sampleRun()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = run.Append(buf[:0])
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecodeRun(b *testing.B) {
	run := sampleRun()
	buf := run.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRun(buf); err != nil {
			b.Fatal(err)
		}
	}
}
