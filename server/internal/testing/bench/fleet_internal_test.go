package bench

import "testing"

func TestServerOfAStore(t *testing.T) {
	for store, want := range map[string]string{
		"postgres://me@10.0.0.1:5432/db": "10.0.0.1:5432",
		"redis://localhost:6379":         "localhost:6379",
		"s3://bucket/prefix?region=r&endpoint=http://127.0.0.1:9000&commit-every=5ms": "127.0.0.1:9000",
		"s3://bucket?region=r": "", "pebble:/folder": "", "postgres://me@10.0.0.1/db": "", "s3://b?endpoint=http://h": "",
	} {
		if got, err := serverOf(store); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", store, got, err)
		}
	}
}
