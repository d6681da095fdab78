package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/s3"
)

const bucketName = "backups"

// someBucket is a bucket in which there is nothing.
func someBucket(t *testing.T) bucket.Bucket {
	t.Helper()
	server := realserver.StartS3(t, bucketName)
	b, err := s3.New(t.Context(), s3.Options{Bucket: bucketName, Region: "us-east-1",
		Endpoint: server.Endpoint(), PathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.Key, server.Secret, "")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAddBase: what a store holds goes to a place of each kind, with the requests to a bucket failing, and from there into
// another store: the same comes back. Another one is added to those that are there.
func TestAddBase(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	dir := t.TempDir()
	shaky := buckettest.NewShaky(someBucket(t), rand.New(rand.NewPCG(11, 12)))
	defer shaky.Calm()
	for name, to := range map[string]transfer.Segments{"folder": transfer.Folder{Path: t.TempDir()},
		"bucket": transfer.NewBucket(shaky, "a", transfer.BucketOptions{Part: 16 << 10})} {
		t.Run(name, func(t *testing.T) {
			s := at(t, "pebble:"+filepath.Join(dir, "from-"+name))
			var all transfer.Counts
			play(t, s, 2, things(t, rand.New(rand.NewPCG(3, 4)), &all))
			for number := range 2 {
				wrote, point, err := transfer.AddBase(t.Context(), s, to, nil)
				if err != nil || point.Number != number+1 || !point.Base || wrote.Counts != all {
					t.Fatalf("%+v, %+v, %v", wrote, point, err)
				}
				if err := transfer.Usable(t.Context(), s); err != nil {
					t.Errorf("the store afterwards: %v", err)
				}
				last := opener("pebble:" + filepath.Join(dir, name, point.Time.Format("150405.000")))
				restored, as, err := transfer.RestoreJournal(t.Context(), to, point.Time, last, nil, nil)
				if err != nil || restored != wrote || as != point {
					t.Errorf("restored %+v as of %+v, %v; written were %+v as of %+v", restored, as, err, wrote, point)
				}
			}
		})
	}
}

// TestTwoCommandsAtOnePlace: of several commands that write to one place at the same time, over connections that fail,
// one writes each number, and those that lose end. There is what each has told of, and nothing else.
func TestTwoCommandsAtOnePlace(t *testing.T) {
	b := someBucket(t)
	first := memory.New(memory.Options{Partitions: partitions})
	copied := memory.New(memory.Options{Partitions: partitions, MACKey: first.Meta().MACKey})
	var mu sync.Mutex
	var told []transfer.Point
	refused := 0
	var writing sync.WaitGroup
	for i, s := range []*memory.Store{first, copied} {
		var all transfer.Counts
		play(t, s, 1, things(t, rand.New(rand.NewPCG(5, uint64(i))), &all))
		shaky := buckettest.NewShaky(b, rand.New(rand.NewPCG(13, uint64(i))))
		writing.Go(func() {
			defer shaky.Calm()
			for range 5 {
				to := transfer.NewBucket(shaky, "a", transfer.BucketOptions{Part: 256 << 10})
				_, p, err := transfer.AddBase(t.Context(), s, to, nil)
				mu.Lock()
				switch {
				case err == nil:
					told = append(told, p)
				case strings.Contains(err.Error(), "another command writes backups to this place"):
					refused++
				default:
					t.Errorf("command of store %d: %v", i, err)
				}
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	slices.SortFunc(told, func(a, b transfer.Point) int { return a.Number - b.Number })
	for i, p := range told {
		if p.Number != i+1 {
			t.Errorf("the point of number %d is %+v", i+1, p)
		}
	}
	if len(told) == 0 || len(told)+refused != 10 {
		t.Fatalf("%d were told of and %d refused, of 10", len(told), refused)
	}
	for _, p := range told { // who was held up all the time is refused, too
		late, err := transfer.NewBucket(b, "a", transfer.BucketOptions{}).Create(t.Context(), p.Number, p.Number)
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Commit(p); err == nil || !strings.Contains(err.Error(), "another command writes backups to this place") {
			t.Errorf("segment %d is written again: %v", p.Number, err)
		}
	}
	to := transfer.NewBucket(b, "a", transfer.BucketOptions{})
	if _, p, err := transfer.CheckJournal(t.Context(), to, time.Time{}); err != nil || p != told[len(told)-1] {
		t.Errorf("the last point: %+v, %v", p, err)
	}
}

// refusing is a bucket that refuses to read some objects, or to remove any.
type refusing struct {
	bucket.Bucket
	read    string // part of their names; empty: none
	remove  bool
	deletes int
}

// Get implements [bucket.Bucket].
func (r *refusing) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	if r.read != "" && strings.Contains(name, r.read) {
		return bucket.Object{}, fmt.Errorf("%w: not today", bucket.ErrRefused)
	}
	return r.Bucket.Get(ctx, name, known)
}

// TestASegmentThatMayBeThereKeepsItsParts: it was written, and reading it back was refused.
func TestASegmentThatMayBeThereKeepsItsParts(t *testing.T) {
	b := &refusing{Bucket: someBucket(t), read: "/segments/"}
	to := transfer.NewBucket(b, "a", transfer.BucketOptions{Part: 16})
	data := bytes.Repeat([]byte("0123456789"), 10)
	s := must[transfer.Segment](t)(to.Create(t.Context(), 1, 1))
	if _, err := s.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(transfer.Point{Number: 1, Base: true, Time: time.Now()}); !errors.Is(err, bucket.ErrRefused) {
		t.Fatalf("committed: %v", err)
	}
	b.read = ""
	chain := must[[]transfer.Stored](t)(to.Chain(t.Context(), time.Time{}))
	r := must[io.ReadCloser](t)(to.Open(t.Context(), chain[0]))
	defer r.Close()
	if is, err := io.ReadAll(r); err != nil || !bytes.Equal(is, data) {
		t.Errorf("it has %q, %v", is, err)
	}
}

// slow is a bucket that waits before each object that it creates.
type slow struct {
	bucket.Bucket
	begun chan string
	goes  chan struct{}
}

// Create implements [bucket.Bucket].
func (s *slow) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	s.begun <- name
	select {
	case <-s.goes:
		return s.Bucket.Create(ctx, name, data)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// TestAWriteDoesNotWaitForTheBucket: while a part is on its way another one has room, and Settle waits. What is
// discarded meanwhile waits for nothing.
func TestAWriteDoesNotWaitForTheBucket(t *testing.T) {
	b := &slow{someBucket(t), make(chan string, 10), make(chan struct{})}
	to := transfer.NewBucket(b, "a", transfer.BucketOptions{Part: 16})
	part := []byte("0123456789abcdef")
	s := must[transfer.Segment](t)(to.Create(t.Context(), 1, 1))
	for range 2 { // the first is sent by the second
		must[int](t)(s.Write(part))
	}
	<-b.begun
	settled := make(chan error)
	go func() { settled <- s.Settle() }()
	b.goes <- struct{}{}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	must[int](t)(s.Write(part))
	<-b.begun
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
	if page, err := b.List(t.Context(), "a/", "", 10); err != nil || len(page.Entries) > 0 {
		t.Errorf("left behind: %v, %v", page, err)
	}
}

// Delete implements [bucket.Bucket].
func (r *refusing) Delete(ctx context.Context, name string) error {
	r.deletes++
	if r.remove {
		return fmt.Errorf("%w: not today", bucket.ErrRefused)
	}
	return r.Bucket.Delete(ctx, name)
}

// TestWhatMayNotBeRemoved: it is tried once, and does no harm.
func TestWhatMayNotBeRemoved(t *testing.T) {
	b := &refusing{Bucket: someBucket(t), remove: true}
	var warnings []error
	to := transfer.NewBucket(b, "a", transfer.BucketOptions{Part: 16, Warn: func(err error) { warnings = append(warnings, err) }})
	left := must[transfer.Segment](t)(transfer.NewBucket(b, "a", transfer.BucketOptions{Part: 16}).Create(t.Context(), 1, 1))
	if _, err := left.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := left.Settle(); err != nil {
		t.Fatal(err)
	}
	s := must[transfer.Segment](t)(to.Create(t.Context(), 1, 1))
	if err := s.Commit(transfer.Point{Number: 1, Base: true, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if b.deletes > 0 {
		t.Error("it was tidied up before the point was told of")
	}
	to.Tidy(t.Context(), 1)
	if len(warnings) != 1 || !errors.Is(warnings[0], bucket.ErrRefused) || b.deletes != 1 {
		t.Errorf("after %d requests: %v", b.deletes, warnings)
	}
	b.remove = false
	to.Tidy(t.Context(), 1)
	if page, err := b.List(t.Context(), "a/parts/", "", 10); err != nil || len(page.Entries) > 0 || len(warnings) != 1 {
		t.Errorf("left behind: %v, %v, %v", page, err, warnings)
	}
}

// busy is a place to which another base is written whenever it was asked what there is.
type busy struct {
	transfer.Folder

	write func()
}

// Chain implements [transfer.Segments].
func (b busy) Chain(ctx context.Context, until time.Time) ([]transfer.Stored, error) {
	defer b.write()
	return b.Folder.Chain(ctx, until)
}

// TestRestoreWhileAnotherWrites: what was read to its end before is what is restored.
func TestRestoreWhileAnotherWrites(t *testing.T) {
	s := memory.New(memory.Options{Partitions: partitions})
	var all transfer.Counts
	play(t, s, 1, things(t, rand.New(rand.NewPCG(15, 16)), &all))
	to := transfer.Folder{Path: t.TempDir()}
	write := func() {
		if _, _, err := transfer.AddBase(t.Context(), s, to, nil); err != nil {
			t.Error(err)
		}
	}
	write()
	last := opener("pebble:" + filepath.Join(t.TempDir(), "last"))
	restored, point, err := transfer.RestoreJournal(t.Context(), busy{to, write}, time.Time{}, last, nil, nil)
	if err != nil || point.Number != 1 || restored.Counts != all {
		t.Errorf("restored %+v as of %+v, %v", restored, point, err)
	}
}

// TestDamageElsewhere: an object that is damaged stands in the way of the points that need it, or may be it, and of no
// others.
func TestDamageElsewhere(t *testing.T) {
	b := someBucket(t)
	to := transfer.NewBucket(b, "a", transfer.BucketOptions{})
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	for number := 1; number <= 4; number++ { // at 0, 1, 2 and 3 h
		s := must[transfer.Segment](t)(to.Create(t.Context(), number, number))
		if err := s.Commit(transfer.Point{Number: number, Base: true, Time: at(float64(number - 1))}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(until time.Time, number int, wrong error) {
		t.Helper()
		chain, err := to.Chain(t.Context(), until)
		if !errors.Is(err, wrong) || wrong == nil && (err != nil || chain[len(chain)-1].Number != number) {
			t.Errorf("until %v: %+v, %v, want %d, %v", until, chain, err, number, wrong)
		}
	}
	for _, number := range []int{2, 3} {
		ruin(t, b, fmt.Sprintf("a/segments/%012d", number))
	}
	want(at(-1), 0, transfer.ErrNoPoint)
	want(at(0), 1, nil)
	for _, hours := range []float64{0.5, 1, 1.5, 2, 2.5} {
		want(at(hours), 0, transfer.ErrDamaged)
	}
	want(at(3), 4, nil)
	want(at(9), 4, nil)
	want(time.Time{}, 4, nil)
	ruin(t, b, "a/segments/000000000001")
	want(at(-1), 0, transfer.ErrDamaged)
	ruin(t, b, "a/segments/000000000004")
	want(at(9), 0, transfer.ErrDamaged)
	want(time.Time{}, 0, transfer.ErrDamaged)
}

// ruin has an object hold something else.
func ruin(t *testing.T, b bucket.Bucket, name string) {
	t.Helper()
	if err := b.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	must[bucket.Version](t)(b.Create(t.Context(), name, []byte("damaged")))
}

// TestABaseFollowsDamage: the last segment is damaged, and the next base is not held up.
func TestABaseFollowsDamage(t *testing.T) {
	s := memory.New(memory.Options{Partitions: partitions})
	var all transfer.Counts
	play(t, s, 1, things(t, rand.New(rand.NewPCG(17, 18)), &all))
	var warnings []error
	warn := func(err error) { warnings = append(warnings, err) }
	b := someBucket(t)
	folder := transfer.Folder{Path: t.TempDir(), Warn: warn}
	for name, to := range map[string]transfer.Segments{"folder": folder,
		"bucket": transfer.NewBucket(b, "a", transfer.BucketOptions{Warn: warn})} {
		t.Run(name, func(t *testing.T) {
			warnings = nil
			add := func() (transfer.Point, error) {
				_, p, err := transfer.AddBase(t.Context(), s, to, nil)
				return p, err
			}
			for range 2 {
				must[transfer.Point](t)(add())
			}
			last := must[transfer.Stored](t)(to.Last(t.Context(), 0))
			if name == "bucket" {
				ruin(t, b, last.Name)
			} else if err := os.WriteFile(filepath.Join(folder.Path, last.Name), []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := add()
			if err != nil || p.Number != 3 || len(warnings) != 1 || !errors.Is(warnings[0], transfer.ErrDamaged) {
				t.Fatalf("%+v, %v; warned of %v", p, err, warnings)
			}
			if _, is, err := transfer.CheckJournal(t.Context(), to, time.Time{}); err != nil || is != p {
				t.Errorf("%+v, %v, want %+v", is, err, p)
			}
		})
	}
}
