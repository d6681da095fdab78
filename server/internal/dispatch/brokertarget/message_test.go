package brokertarget

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestWhatIsSent(t *testing.T) {
	d := attempt(1)
	d.Run.Job = "a/ü"
	headers := func() map[string]string {
		all := map[string]string{}
		m := newMessage(&d, []byte("x"))
		for _, h := range m.Headers {
			if _, twice := all[h.Name]; twice {
				t.Errorf("%s is there twice", h.Name)
			}
			all[h.Name] = h.Value
		}
		return all
	}
	h := headers()
	for name, want := range map[string]string{"ce-specversion": "1.0", "ce-id": d.Run.ID, "ce-type": "com.carillonhq.run",
		"ce-source": "/v1/namespaces/default/jobs/a/%C3%BC", "ce-subject": "a/ü", "ce-time": "2027-01-15T08:00:00Z",
		"idempotency-key": d.Run.ID, "carillon-job": "default/a/ü", "carillon-attempt": "1",
		"carillon-scheduled-time": "2027-01-15T08:00:00Z", "carillon-deadline": "2027-01-15T08:00:30Z",
		"carillon-token": d.Run.Token} {
		if h[name] != want {
			t.Errorf("%s: %q, not %q", name, h[name], want)
		}
	}
	if len(h["traceparent"]) != 55 || len(h) != 13 {
		t.Errorf("%d headers: %v", len(h), h)
	}
	d.StoreAway = true
	d.Run.Data.ContentType = "application/CloudEvents+json"
	h = headers()
	if h["ce-id"] != "" || h["idempotency-key"] != d.Run.ID || h["carillon-store"] != delivery.StoreIsAway {
		t.Errorf("%v", h)
	}
}

// TestTheKeyOfARecord is the target's, or else the job's name; the target itself is not changed.
func TestTheKeyOfARecord(t *testing.T) {
	d := attempt(1)
	d.Target = carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "c", Topic: "t"}}
	if m := newMessage(&d, nil); m.To.Kafka.Key != "reports/nightly" || d.Target.Kafka.Key != "" {
		t.Errorf("%+v", m.To.Kafka)
	}
	d.Target.Kafka.Key = "own"
	if m := newMessage(&d, nil); m.To.Kafka.Key != "own" {
		t.Errorf("%+v", m.To.Kafka)
	}
}
