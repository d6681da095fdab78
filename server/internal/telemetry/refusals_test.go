package telemetry

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestRefusalsHaveBoundedSeries: the first namespaces have series of their own, all further ones share.
func TestRefusalsHaveBoundedSeries(t *testing.T) {
	m := New("test")
	for range 2 {
		for i := range maxRefusedNamespaces + 10 {
			m.QuotaRefused(fmt.Sprint("ns", i), "puts")
		}
	}
	m.QuotaRefused("ns0", "jobs")
	m.QuotaRefused("ns0", "of a later version")
	for _, c := range []struct {
		namespace, quota string
		want             float64
	}{{"ns0", "puts", 2}, {"ns0", "jobs", 1}, {"ns0", "payload_bytes", 0}, {"ns199", "puts", 2}, {Other, "puts", 20},
		{Other, "jobs", 0}} {
		if got := testutil.ToFloat64(m.refusals.vec.WithLabelValues(c.namespace, c.quota)); got != c.want {
			t.Errorf("%s, %s: %v, want %v", c.namespace, c.quota, got, c.want)
		}
	}
	if n := testutil.CollectAndCount(m.refusals.vec); n != (maxRefusedNamespaces+1)*len(quotaNames) {
		t.Errorf("there are %d series", n)
	}
}
