package doctor_test

import (
	"bytes"
	"context"
	"maps"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/etcd" // stores of the tests
	_ "github.com/carillonhq/carillon/server/store/gcs"
	_ "github.com/carillonhq/carillon/server/store/postgres"
)

// TestEngines: on each engine nothing is wrong with a store that was restored; what is damaged through its
// interface is found and mended, and a node serves it.
func TestEngines(t *testing.T) {
	for _, url := range []string{
		realserver.StartPostgres(t).URL("postgres"), "etcd://" + realserver.StartEtcd(t).Address(),
		"gs://doctor/x?anonymous=yes&commit-every=1ms&endpoint=" + realserver.StartGCS(t, "doctor").Endpoint(),
	} {
		engine(t, url)
	}
}

// engine tests the store of a URL.
func engine(t *testing.T, url string) {
	t.Helper()
	b, err := golden.Backup(1)
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, url, o) }
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(b), open, nil); err != nil {
		t.Fatal(url, err)
	}
	s := opened(t, url)
	if got := kinds(t, s, doctor.Look); len(got) > 0 {
		t.Errorf("%s: %v", url, got)
	}
	damage(t, s, func(p *patient) {
		p.change("once", func(s *store.State) { s.Due = 0 })
		p.change("cron", func(s *store.State) { s.Pending = 7 })
		p.forget(store.KindDependency)
	})
	want := map[doctor.Kind]doctor.Tally{doctor.DueLate: {Found: 1}, doctor.PendingCountWrong: {Found: 1},
		doctor.DependencyMissing: {Found: 1}}
	if got := kinds(t, s, doctor.Look); !maps.Equal(got, want) {
		t.Errorf("%s: %v", url, got)
	}
	for kind := range want {
		want[kind] = doctor.Tally{Found: 1, Mended: 1}
	}
	if got := kinds(t, s, doctor.Mend); !maps.Equal(got, want) {
		t.Errorf("%s: mended: %v", url, got)
	}
	closed(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := golden.Serve(ctx, url, golden.Due(), func(*embedded.Scheduler) error { return nil }); err != nil {
		t.Fatal(url, err)
	}
	s = opened(t, url)
	if got := kinds(t, s, doctor.Look); len(got) > 0 {
		t.Errorf("%s: after a node: %v", url, got)
	}
	closed(t, s)
}
