package carillon_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestKey(t *testing.T) {
	j := validJob()
	if k := j.Key(); k != (carillon.Key{Namespace: "acme-1", Name: "reports/nightly"}) ||
		k.String() != "acme-1/reports/nightly" {
		t.Errorf("%v", k)
	}
}

// TestWhenIsAsWritten: what the constructors write is read back as what was meant.
func TestWhenIsAsWritten(t *testing.T) {
	moment := time.Date(2030, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600))
	for _, c := range []struct {
		when carillon.When
		text string
		want time.Time
	}{
		{carillon.In(90 * time.Second), "1m30s", now.Add(90 * time.Second)},
		{carillon.In(0), "0s", now},
		{carillon.At(moment), "2030-01-02T02:04:05.0000006Z", moment},
		{carillon.WhenText("PT3S"), "PT3S", now.Add(3 * time.Second)},
	} {
		if c.when.IsZero() || c.when.String() != c.text {
			t.Errorf("%q, want %q", c.when, c.text)
		}
		j := carillon.Job{Due: c.when}
		if due, _, err := j.Life(now); err != nil || !due.Equal(c.want) {
			t.Errorf("%q is %v, %v; want %v", c.text, due, err, c.want)
		}
	}
	if !(carillon.When{}).IsZero() || !carillon.WhenText("").IsZero() {
		t.Error("nothing given is not zero")
	}
}

func TestTargetKinds(t *testing.T) {
	for want, target := range map[string]carillon.Target{
		"": {}, "worker": carillon.WorkerQueue("q"), "http": carillon.HTTP("http://a/"),
		"kafka": {Kafka: &carillon.KafkaTarget{}}, "amqp": {AMQP: &carillon.AMQPTarget{}},
		"nats": {NATS: &carillon.NATSTarget{}}, "redis": {Redis: &carillon.RedisTarget{}},
		"exec": {Exec: &carillon.ExecTarget{}},
	} {
		if got := target.Kind(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPutOptions(t *testing.T) {
	for _, c := range []struct {
		opts []carillon.PutOption
		want carillon.PutOptions
	}{
		{nil, carillon.PutOptions{}},
		{[]carillon.PutOption{carillon.IfAbsent()}, carillon.PutOptions{IfAbsent: true}},
		{[]carillon.PutOption{carillon.IfGeneration(7)}, carillon.PutOptions{IfGeneration: 7}},
		{[]carillon.PutOption{carillon.IfAbsent(), carillon.PutOptions{Replace: true}, carillon.IfGeneration(7)},
			carillon.PutOptions{IfAbsent: true, IfGeneration: 7, Replace: true}},
	} {
		if got := (carillon.PutOptions{}).With(c.opts...); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
