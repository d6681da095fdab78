package follow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// place is where a journal is.
type place struct {
	to   func() transfer.Segments        // as a command opens it
	file func(segment int) (path string) // that the server of the place has, or that is there
}

const bucketName = "journals"

// places are places of each kind in which there is nothing yet.
func places(t *testing.T) map[string]func(t *testing.T) place {
	server := realserver.StartS3(t, bucketName)
	b, n := bucketOf(t, server), 0
	return map[string]func(t *testing.T) place{
		"folder": func(t *testing.T) place {
			t.Helper()
			dir := t.TempDir()
			return place{func() transfer.Segments { return transfer.Folder{Path: dir} }, func(segment int) string {
				found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%08d-*", segment)))
				if err != nil || len(found) != 1 {
					t.Fatalf("%q, %v", found, err)
				}
				return found[0]
			}}
		},
		"bucket": func(*testing.T) place {
			n++
			prefix := fmt.Sprint("journal-", n)
			open := func() transfer.Segments { // whose parts are so large that it keeps up with the lanes
				return transfer.NewBucket(b, prefix, transfer.BucketOptions{Part: 1 << 20})
			}
			return place{open, func(segment int) string {
				return filepath.Join(server.Folder, bucketName, prefix, fmt.Sprintf("segments/%012d", segment))
			}}
		},
	}
}

// followed has a journal written until some points have come while lanes write, and two after they have ended.
func (r *rig) followed(to transfer.Segments, points int) []transfer.Point {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	end := r.play()
	var all []transfer.Point
	err := transfer.Follow(ctx, r.callAll, to, time.Millisecond, func(p transfer.Point) {
		all = append(all, p)
		switch len(all) {
		case points:
			end()
		case points + 2:
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		r.Fatal(err)
	}
	return all
}

// idle has a journal written until some points have come, while no lane writes.
func (r *rig) idle(to transfer.Segments, points int) (all []transfer.Point) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	err := transfer.Follow(ctx, r.callAll, to, time.Millisecond, func(p transfer.Point) {
		if all = append(all, p); len(all) == points {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		r.Fatal(err)
	}
	return all
}

// TestJournal restores what a store held at each point of a journal, also of one that was begun again.
func TestJournal(t *testing.T) {
	for kind, at := range places(t) {
		t.Run(kind, func(t *testing.T) { restoredAtEachPoint(t, at(t)) })
	}
}

func restoredAtEachPoint(t *testing.T, at place) {
	t.Helper()
	r := newRig(t, 3, 2)
	points := r.followed(at.to(), 3)
	if err := r.lanes[0].write(0); err != nil { // which is not in a segment of the first journal
		t.Fatal(err)
	}
	points = append(points, r.idle(at.to(), 1)...)
	to := at.to()
	if last, err := to.Last(t.Context(), 0); err != nil || last.Number != len(points) {
		t.Fatalf("the last segment is %+v, of %d points, %v", last, len(points), err)
	}
	for i, p := range points {
		if base := i == 0 || i == len(points)-1; p.Number != i+1 || p.Base != base {
			t.Errorf("point %d: %+v", i, p)
		}
		var made target
		until := p.Time
		if i == len(points)-1 {
			until = time.Time{}
		}
		_, as, err := transfer.RestoreJournal(t.Context(), to, until, made.open, nil, nil)
		if err != nil {
			t.Fatalf("until %v: %v", until, err)
		}
		if as != p {
			t.Errorf("until %v it is as of %+v, want %+v", until, as, p)
		}
		checkBaton(t, made.made)
		if i == len(points)-1 {
			if was, is := sums(t, r.store), sums(t, made.made); !slices.Equal(was, is) {
				t.Errorf("at the end: %+v, want %+v", is, was)
			}
		}
		terms, err := made.made.Leaser().Claim(t.Context(), "n", []int{0}, time.Second)
		if err != nil || terms[0].Epoch <= p.Epoch {
			t.Errorf("a term of the restored store: %+v, %v, after epoch %d", terms, err, p.Epoch)
		}
	}
	if _, _, err := transfer.CheckJournal(t.Context(), to, points[0].Time.Add(-time.Second)); !errors.Is(err,
		transfer.ErrNoPoint) {
		t.Errorf("before the first point: %v", err)
	}
}

// TestADamagedJournal: what is missing or was changed is told, and leaves no store.
func TestADamagedJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	kinds := places(t)
	for name, damage := range map[string]func(t *testing.T, segment string){
		"2 is missing": func(t *testing.T, segment string) {
			t.Helper()
			if err := os.Remove(segment); err != nil {
				t.Fatal(err)
			}
		},
		"segment 2: the backup is damaged": func(t *testing.T, segment string) {
			t.Helper()
			text, err := os.ReadFile(segment)
			if err == nil {
				text[len(text)/2]++
				err = os.WriteFile(segment, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"segment 2: the backup is damaged: ": func(t *testing.T, segment string) {
			t.Helper()
			if err := os.Truncate(segment, 100); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for kind, of := range kinds {
			t.Run(kind+": "+name, func(t *testing.T) {
				at := of(t)
				newRig(t, 4, 1).followed(at.to(), 2)
				damage(t, at.file(2))
				_, _, err := transfer.RestoreJournal(t.Context(), at.to(), time.Time{},
					func(context.Context, store.Options) (store.Store, error) {
						t.Error("a store is made of it")
						return nil, errors.New("no store")
					}, nil, nil)
				if !errors.Is(err, transfer.ErrDamaged) || !strings.Contains(err.Error(), name) {
					t.Errorf("it is restored with %v, want %q", err, name)
				}
			})
		}
	}
}

// TestOlderSegmentsAreRemoved: who removes segments need not know which are bases; what can be restored still
// is what came after the next one.
func TestOlderSegmentsAreRemoved(t *testing.T) {
	for kind, of := range places(t) {
		t.Run(kind, func(t *testing.T) {
			at := of(t)
			r := newRig(t, 7, 1)
			points := append(r.followed(at.to(), 1), r.idle(at.to(), 2)...)
			for _, number := range []int{1, 2} {
				if err := os.Remove(at.file(number)); err != nil {
					t.Fatal(err)
				}
			}
			for i, p := range points {
				_, is, err := transfer.CheckJournal(t.Context(), at.to(), p.Time)
				switch {
				case p.Number == 3 && !errors.Is(err, transfer.ErrDamaged) && !errors.Is(err, transfer.ErrNoPoint):
					t.Errorf("until point 3, without its base: %+v, %v", is, err)
				case p.Number < 3 && !errors.Is(err, transfer.ErrNoPoint):
					t.Errorf("until point %d, which is gone: %+v, %v", p.Number, is, err)
				case p.Number > 3 && (err != nil || is != points[i]):
					t.Errorf("until point %d: %+v, %v", p.Number, is, err)
				}
			}
		})
	}
}

// TestAClockThatIsPutBack: points are not before those that were written by a clock that was ahead.
func TestAClockThatIsPutBack(t *testing.T) {
	folder := t.TempDir()
	to := transfer.Folder{Path: folder}
	r := newRig(t, 5, 1)
	_ = r.idle(to, 1)
	ahead := time.Now().UTC().Add(time.Hour).Truncate(time.Millisecond)
	name := filepath.Join(folder, "00000001-"+ahead.Format("20060102T150405.000Z")+"-base")
	found, err := filepath.Glob(filepath.Join(folder, "00000001-*"))
	if err == nil {
		err = os.Rename(found[0], name)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.idle(to, 2) {
		if !p.Time.Equal(ahead) {
			t.Errorf("a point of %v after one of %v", p.Time, ahead)
		}
	}
	if _, p, err := transfer.CheckJournal(t.Context(), to, time.Time{}); err != nil || p.Number != 3 {
		t.Errorf("the last point: %+v, %v", p, err)
	}
}

// TestAJournalOfAnotherStore: two stores do not share a place.
func TestAJournalOfAnotherStore(t *testing.T) {
	for kind, of := range places(t) {
		t.Run(kind, func(t *testing.T) {
			at := of(t)
			newRig(t, 5, 1).followed(at.to(), 1)
			err := transfer.Follow(t.Context(), newRig(t, 6, 1).callAll, at.to(), time.Second, func(transfer.Point) {
				t.Error("there is a point of another store")
			})
			if err == nil || !strings.Contains(err.Error(), "backups of another store") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
