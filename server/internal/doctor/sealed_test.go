package doctor_test

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// secrets is a job whose run has failed once and is late, a dead run of it, the settings of its namespace,
// events, and a batch of one job, all in one partition.
func secrets(p *patient) (partitionOf int, b *store.Batch) {
	key, n := p.key("default", "late")
	r := made(key.Name, func(s *store.State) {
		unfinished(s)
		s.Phase, s.Run.Attempt, s.Counters.Fired, s.Due = carillon.PhaseRetrying, 1, 1, 0
		s.Run.Errors = []carillon.AttemptError{{Attempt: 1, Message: "an error"}}
	})
	b = run(n, key.Name, func(r *store.RunRecord) {
		r.Status, r.Response, r.Spec = carillon.RunDead, []byte("a response"), codec.EncodeSpec(&carillon.Job{Target: carillon.WorkerQueue("q")})
	})
	b.Puts = []store.Record{r}
	ns := ""
	for i := byte('a'); ns == ""; i++ {
		if store.PartitionOf(carillon.Key{Namespace: string(i)}, len(p.shards)) == n {
			ns = string(i)
		}
	}
	other := carillon.Job{Namespace: "default", Name: "other", Target: carillon.WorkerQueue("q")}
	b.MetaRecords = append(partition.CommitIntents("batch", 1, []message.PutRequest{{Job: &other}}),
		store.MetaRecord{Kind: store.KindNamespace, Key: ns, Value: codec.EncodeNamespace(&carillon.Namespace{Strict: true})},
		store.MetaRecord{Kind: store.KindEvents, Key: partition.EventKey(1), Value: codec.AppendEvents(nil,
			&store.EventList{List: []store.Event{{Type: "run", Key: key, Error: "an error"}}})})
	return n, b
}

// TestWhatCannotBeDecrypted: it is told of, each by itself, and nothing of it is lost when what is beside it is
// mended.
func TestWhatCannotBeDecrypted(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keyset.File{Path: filepath.Join(t.TempDir(), "keys.json")}.Create()
	if err != nil {
		t.Fatal(err)
	}
	box, s := sealed.New(keyset.NewSet(keys)), opened(t, url)
	defer closed(t, s)
	with := func(look func(context.Context, store.Store, doctor.Options) (*doctor.Report, error)) map[doctor.Kind]doctor.Tally {
		t.Helper()
		return kinds(t, s, func(ctx context.Context, s store.Store, o doctor.Options) (*doctor.Report, error) {
			o.Keys = box.Keeping()
			return look(ctx, s, o)
		})
	}
	damage(t, s, func(p *patient) {
		n, b := secrets(p)
		if b, _, err = box.Batch(b); err != nil {
			t.Fatal(err)
		}
		p.apply(n, b)
	})
	if got := with(doctor.Look); !maps.Equal(got, map[doctor.Kind]doctor.Tally{doctor.DueLate: {Found: 1}}) {
		t.Fatalf("with its keys: %v", got)
	}
	var was string
	damage(t, s, func(p *patient) {
		n, b := secrets(p)
		if b, _, err = box.Batch(b); err != nil {
			t.Fatal(err)
		}
		flip := func(b []byte) { b[len(b)-1] ^= 1 }
		flip(b.Runs[0].Response)
		message := []byte(b.Puts[0].State.Run.Message)
		flip(message)
		was = string(message)
		b.Puts[0].State.Run.Message = was
		for i := range b.MetaRecords {
			v := b.MetaRecords[i].Value
			if b.MetaRecords[i].Kind == store.KindEvents { // its last bytes are no part of what is encrypted
				v = v[:len(v)/2]
			}
			flip(v)
		}
		p.apply(n, b)
	})
	want := map[doctor.Kind]doctor.Tally{doctor.DueLate: {Found: 1}, doctor.Undecrypted: {Found: 5}}
	if got := with(doctor.Look); !maps.Equal(got, want) {
		t.Errorf("what was changed: %v, want %v", got, want)
	}
	want[doctor.DueLate] = doctor.Tally{Found: 1, Mended: 1}
	if got := with(doctor.Mend); !maps.Equal(got, want) {
		t.Errorf("mended: %v, want %v", got, want)
	}
	damage(t, s, func(p *patient) {
		if r := p.job("late"); r.State.Run.Message != was || r.State.Due == 0 {
			t.Errorf("what could not be decrypted is not what it was: due %d, %q", r.State.Due, r.State.Run.Message)
		}
	})
}
