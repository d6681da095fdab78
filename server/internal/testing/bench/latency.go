package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantiles are milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// longest is the longest duration that a histogram tells from longer ones.
const longest = time.Hour

// histogram collects durations from many goroutines, in microseconds.
type histogram struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func newHistogram() *histogram {
	return &histogram{h: hdrhistogram.New(1, longest.Microseconds(), 3)}
}

// record adds durations; below a microsecond they count as one, above the longest as that.
func (h *histogram) record(ds ...time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		_ = h.h.RecordValue(max(1, min(d, longest).Microseconds())) // within range by construction
	}
}

func (h *histogram) quantiles() *Quantiles {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.h.TotalCount() == 0 {
		return nil
	}
	ms := func(p float64) float64 { return float64(h.h.ValueAtQuantile(p)) / 1000 }
	return &Quantiles{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: float64(h.h.Max()) / 1000}
}
