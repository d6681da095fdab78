package codec

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
		buf = AppendState(buf[:0], &state)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecodeState(b *testing.B) {
	state := sampleState()
	buf := AppendState(nil, &state)
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
		buf = AppendRun(buf[:0], &run)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecodeRun(b *testing.B) {
	run := sampleRun()
	buf := AppendRun(nil, &run)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRun(buf); err != nil {
			b.Fatal(err)
		}
	}
}
