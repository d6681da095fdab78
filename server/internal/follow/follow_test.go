package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// kept is a store that outlives its end.
type kept struct{ *memory.Store }

// Close implements [store.Store].
func (kept) Close() error { return nil }

// target is where a copy goes.
type target struct{ made *memory.Store }

func (to *target) open(_ context.Context, o store.Options) (store.Store, error) {
	if to.made == nil {
		to.made = memory.New(memory.Options{Partitions: o.Partitions, MACKey: o.MACKey, Epoch: o.Epoch})
	}
	return kept{to.made}, nil
}

// reader returns a partition for reads.
func reader(t *testing.T, s store.Store, p int) store.Shard {
	t.Helper()
	sh, err := s.Shard(p, store.Term{})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// sums are what the partitions of a store hold.
func sums(t *testing.T, s store.Store) (all []transfer.Result) {
	t.Helper()
	for p := range partitions {
		sum, err := transfer.SumUp(t.Context(), p, reader(t, s, p))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sum)
	}
	return all
}

// seeds is how many workloads are played.
func seeds() uint64 {
	if testing.Short() {
		return 1
	}
	return 4
}

// TestMigrateLive moves stores to which nodes write, that also take partitions from each other.
func TestMigrateLive(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t, seed, 2)
			var to target
			end := r.play()
			result, err := transfer.MigrateLive(t.Context(), r.callAll, to.open, nil)
			if err != nil {
				end()
				t.Fatal(err)
			}
			for _, n := range r.nodes {
				<-n.tap.Ended()
			}
			end()
			if err := r.lanes[0].write(0); err == nil {
				t.Error("a node writes to a store that has moved")
			}
			if err := transfer.Usable(t.Context(), r.store); err == nil {
				t.Error("the store that has moved has no mark")
			}
			if err := transfer.Usable(t.Context(), to.made); err != nil {
				t.Errorf("the new store: %v", err)
			}
			was, is := sums(t, r.store), sums(t, to.made)
			if !slices.Equal(was, is) {
				t.Errorf("the new store holds %+v, want %+v", is, was)
			}
			var records int64
			for _, sum := range is {
				records += sum.Records
			}
			if records != result.Records || records == 0 {
				t.Errorf("%d records, want %d", records, result.Records)
			}
		})
	}
}

// TestDeposeLive: nodes that write, and take partitions from each other, end when their store is deposed; those
// of another store than the one that was backed up go on, and so do all if one of them cannot mark what it has.
func TestDeposeLive(t *testing.T) {
	for seed := range seeds() {
		r := newRig(t, seed, 2)
		end := r.play()
		is := transfer.Head{MACKey: r.store.Meta().MACKey}
		if err := transfer.DeposeLive(t.Context(), r.callAll, transfer.Head{MACKey: []byte("another")}); err == nil {
			t.Error("a store is deposed that was not backed up")
		}
		for _, n := range r.nodes {
			n.fails.Store(1)
		}
		err := transfer.DeposeLive(t.Context(), r.callAll, is)
		if !strings.Contains(fmt.Sprint(err), errMark.Error()) {
			t.Errorf("with a mark that cannot be written: %v", err)
		}
		for _, n := range r.nodes {
			n.fails.Store(0)
			select {
			case <-n.tap.Ended():
				t.Errorf("node %s has ended", n.name)
			default:
			}
		}
		if err := transfer.Usable(t.Context(), r.store); err != nil {
			t.Errorf("the store that goes on: %v", err)
		}
		if err := transfer.DeposeLive(t.Context(), r.callAll, is); err != nil {
			end()
			t.Fatal(err)
		}
		for _, n := range r.nodes {
			<-n.tap.Ended()
		}
		end()
		if err := r.lanes[0].write(0); err == nil {
			t.Error("a node writes to a store that was deposed")
		}
		if err := transfer.Usable(t.Context(), r.store); !errors.Is(err, store.ErrMoved) {
			t.Errorf("the store that was deposed: %v, want %v", err, store.ErrMoved)
		}
	}
}

// TestCopyLiveIsOfOneMoment: a number that lanes pass on is in the copy as far as it had come at one moment.
func TestCopyLiveIsOfOneMoment(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t, seed, 3)
			end := r.play()
			defer end()
			for range 3 {
				var to target
				if err := transfer.CopyLive(t.Context(), r.callAll, to.open, nil); err != nil {
					t.Fatal(err)
				}
				checkBaton(t, to.made)
			}
		})
	}
}

// checkBaton checks that each lane has the number after the one of the lane before, but for the one that has
// the greatest.
func checkBaton(t *testing.T, s store.Store) {
	t.Helper()
	var has []int
	for p := range partitions {
		found, err := reader(t, s, p).MetaRecords(t.Context(), store.MetaQuery{Kind: store.KindTold, Prefix: "baton", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		if len(found) > 0 {
			number, _ = strconv.Atoi(string(found[0].Value))
		}
		has = append(has, number)
	}
	first := []int{}
	for p := 0; p < partitions; p += perLane {
		if has[p] != has[p+1] {
			t.Errorf("a group is there by half: %d", has)
		}
		first = append(first, has[p])
	}
	most := slices.Max(first)
	at := slices.Index(first, most)
	for back := range min(len(first), most) {
		if got := first[(at-back+len(first))%len(first)]; got != most-back {
			t.Errorf("the numbers are %d: not of one moment", first)
			return
		}
	}
}

// TestANodeGoesMeanwhile: what a node had to copy is copied again from another.
func TestANodeGoesMeanwhile(t *testing.T) {
	r := newRig(t, 1, 2)
	end := r.play()
	defer end()
	var to target
	goes := sync.OnceFunc(func() {
		r.nodes[1].server.Stop()
		r.gone.Store(r.nodes[1])
	})
	if err := transfer.CopyLive(t.Context(), r.callAll, to.open, func(transfer.Counts) { goes() }); err != nil {
		t.Fatal(err)
	}
	checkBaton(t, to.made)
}

// goesOn checks that a store has no mark, and that another attempt moves it.
func goesOn(t *testing.T, r *rig, to *target) {
	t.Helper()
	for p := range partitions {
		if found, err := reader(t, r.store, p).MetaRecords(t.Context(), store.MoveMarks); err != nil || len(found) > 0 {
			t.Errorf("partition %d has marks: %v, %v", p, found, err)
		}
	}
	for _, n := range r.nodes {
		select {
		case <-n.tap.Ended():
			t.Errorf("node %s has ended", n.name)
		default:
		}
	}
	if _, err := transfer.MigrateLive(t.Context(), r.callAll, to.open, nil); err != nil {
		t.Errorf("another attempt: %v", err)
	}
}

// TestANodeCannotMarkItsPartitions: all nodes go on, whichever it is.
func TestANodeCannotMarkItsPartitions(t *testing.T) {
	for i := range 2 {
		r := newRig(t, 7, 2)
		r.still = true
		end := r.play()
		var to target
		r.nodes[i].fails.Store(1)
		_, err := transfer.MigrateLive(t.Context(), r.callAll, to.open, nil)
		if err == nil || !strings.Contains(err.Error(), "the others go on") || !strings.Contains(err.Error(), errMark.Error()) {
			t.Errorf("node %d: %v", i, err)
		}
		goesOn(t, r, &to)
		end()
	}
}

// reading is a new store whose first read back has an effect.
type reading struct {
	store.Store
	first func()
}

// Shard implements [store.Store].
func (s reading) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	return readingShard{sh, s.first}, err
}

type readingShard struct {
	store.Shard
	first func()
}

// Runs implements [store.Shard]: nothing else reads the runs of a store that is filled for the first time.
func (s readingShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if q.After != nil {
		s.first()
	}
	return s.Shard.Runs(ctx, q)
}

// TestTakenAtTheLastMoment: a partition that another node takes after it was checked is not moved, nor is
// anything else.
func TestTakenAtTheLastMoment(t *testing.T) {
	for _, p := range []int{0, partitions - 1}[:min(2, seeds())] {
		r := newRig(t, 8, 2)
		r.still = true
		end := r.play()
		var to target
		takes := sync.OnceFunc(func() {
			for _, n := range r.nodes {
				for _, h := range n.Serves() {
					if h.Partition == p {
						n.mu.Lock()
						delete(n.held, p)
						n.mu.Unlock()
						if err := r.store.Leaser().Release(t.Context(), n.name, []store.Holding{h}); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
		_, err := transfer.MigrateLive(t.Context(), r.callAll, func(ctx context.Context, o store.Options) (store.Store, error) {
			s, err := to.open(ctx, o)
			return reading{s, takes}, err
		}, nil)
		if err == nil || !strings.Contains(err.Error(), "go on") {
			t.Errorf("partition %d: %v", p, err)
		}
		end()
		for q := range partitions {
			found, err := reader(t, r.store, q).MetaRecords(t.Context(), store.MoveMarks)
			if err != nil || len(found) > 0 {
				t.Errorf("partition %d has marks after %d was taken: %v, %v", q, p, found, err)
			}
		}
		if err := transfer.Usable(t.Context(), to.made); err == nil {
			t.Error("the new store may be served")
		}
	}
}

// TestStrangers: only those who know the store may copy what it holds.
func TestStrangers(t *testing.T) {
	r := newRig(t, 1, 1)
	for secret, want := range map[string]string{"": "only who can open the store", "secret": "", "another": "only who can"} {
		calls := func(ctx context.Context, but []string) ([]transfer.Node, error) {
			if len(but) > 0 {
				return nil, nil
			}
			return []transfer.Node{follow.Call(ctx, "n", r.nodes[0].address, secret, insecure.NewCredentials())}, nil
		}
		var to target
		err := transfer.CopyLive(t.Context(), calls, to.open, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with the secret %q: %v, want %q", secret, err, want)
		}
	}
}
