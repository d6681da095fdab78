package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Spread is a distribution that a node has counted in buckets, in milliseconds: each value is the upper bound
// of its bucket.
type Spread struct {
	Count int64   `json:"count"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// bucket is how many values are at most a bound.
type bucket struct {
	most  float64 // seconds
	count int64
}

// scraped is the counters of a node's /metrics without labels, and its histograms.
type scraped struct {
	values  map[string]float64
	buckets map[string][]bucket // in ascending order
}

// scrape reads the metrics of a node.
func scrape(ctx context.Context, address string) (*scraped, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	var caller http.Client // ctx limits it
	defer caller.CloseIdleConnections()
	res, err := caller.Do(req)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", res.Status)
	}
	return parseMetrics(res.Body)
}

// parseMetrics reads Prometheus' text format; of what has labels, buckets only.
func parseMetrics(r io.Reader) (*scraped, error) {
	s := &scraped{values: map[string]float64{}, buckets: map[string][]bucket{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue // a comment, or a label with a space
		}
		histogram, bound, ok := strings.Cut(name, `_bucket{le="`)
		if !ok {
			s.values[name] = value
			continue
		}
		most, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"}`), 64)
		if err != nil {
			continue // it has other labels
		}
		s.buckets[histogram] = append(s.buckets[histogram], bucket{most, int64(value)})
	}
	return s, lines.Err()
}

// since is what a counter has grown by.
func (s *scraped) since(before *scraped, counter string) int64 {
	return int64(s.values[counter] - before.values[counter])
}

// spread is what a histogram has counted since; nil if that is nothing.
func (s *scraped) spread(before *scraped, histogram string) *Spread {
	grown := slices.Clone(s.buckets[histogram])
	for i, b := range before.buckets[histogram] {
		if i < len(grown) {
			grown[i].count -= b.count
		}
	}
	if len(grown) == 0 || grown[len(grown)-1].count == 0 {
		return nil
	}
	n := grown[len(grown)-1].count
	at := func(share float64) float64 {
		rank := int64(math.Ceil(share * float64(n)))
		i := slices.IndexFunc(grown, func(b bucket) bool { return b.count >= rank })
		if math.IsInf(grown[i].most, 1) && i > 0 {
			i-- // all that is known is that it is more
		}
		return 1000 * grown[i].most
	}
	return &Spread{Count: n, P99: at(.99), P999: at(.999), Max: at(1)}
}
