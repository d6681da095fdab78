package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/s3"
)

// bucketOf is the bucket of a server.
func bucketOf(t *testing.T, server *realserver.S3) bucket.Bucket {
	t.Helper()
	b, err := s3.New(t.Context(), s3.Options{Bucket: bucketName, Region: "us-east-1",
		Endpoint: server.Endpoint(), PathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.Key, server.Secret, "")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newBucket is a place in a bucket, as a command opens it. Its parts are so small that bases have some.
func newBucket(b bucket.Bucket, prefix string) *transfer.Bucket {
	return transfer.NewBucket(b, prefix, transfer.BucketOptions{Part: 8 << 10, Away: time.Millisecond})
}

// names are all objects.
func names(t *testing.T, b bucket.Bucket, prefix string) (all []string) {
	t.Helper()
	for more := true; more; {
		after := ""
		if len(all) > 0 {
			after = all[len(all)-1]
		}
		page, err := b.List(t.Context(), prefix, after, bucket.MostListed)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			all = append(all, e.Name)
		}
		more = page.More
	}
	return all
}

// TestEachObjectOfABucket: whichever object is missing, was cut, changed, or exchanged for another one, the
// backup is refused, and the object is named.
func TestEachObjectOfABucket(t *testing.T) {
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	newRig(t, 4, 1).idle(newBucket(b, "foreign"), 3)
	newRig(t, 5, 1).idle(newBucket(b, "a"), 3)
	read := func(name string) []byte {
		o, err := b.Get(t.Context(), name, "")
		if err != nil {
			t.Fatal(err)
		}
		return o.Data
	}
	write := func(name string, data []byte) {
		if err := b.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if data == nil {
			return
		}
		if _, err := b.Create(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
	all := names(t, b, "a/")
	if len(all) < 5 {
		t.Fatalf("there are only %q", all)
	}
	last, err := newBucket(b, "a").Last(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range all {
		if strings.HasPrefix(name, fmt.Sprintf("a/parts/%012d", last.Number+1)) {
			t.Errorf("%s is of a segment that is not there", name)
		}
		was := read(name)
		other := read(all[(i+1)%len(all)])
		foreign := read(names(t, b, "foreign/segments/")[last.Number-1])
		flipped := slices.Clone(was)
		flipped[i*37%len(flipped)] ^= 4
		for what, data := range map[string][]byte{"missing": nil, "cut": was[:len(was)-1], "emptied": {},
			"changed": flipped, "longer": append(slices.Clone(was), '\n'), "exchanged": other, "foreign": foreign} {
			write(name, data)
			_, p, err := transfer.CheckJournal(t.Context(), newBucket(b, "a"), time.Time{})
			if what == "missing" && name == last.Name { // what is left is what it was at the point before
				if err != nil || p.Number != last.Number-1 {
					t.Errorf("without the last segment: %+v, %v", p, err)
				}
				continue
			}
			if !errors.Is(err, transfer.ErrDamaged) || !strings.Contains(err.Error(), name) &&
				name != last.Name { // which says to which backup the others must belong
				t.Errorf("%s is %s: %v", name, what, err)
			}
		}
		write(name, was)
	}
	if _, _, err := transfer.CheckJournal(t.Context(), newBucket(b, "a"), time.Time{}); err != nil {
		t.Errorf("everything is as it was: %v", err)
	}
	foreign, swapped := read("foreign/segments/000000000002"), read("a/segments/000000000002")
	write("a/segments/000000000002", foreign)
	if _, _, err := transfer.CheckJournal(t.Context(), newBucket(b, "a"), time.Time{}); !errors.Is(err,
		transfer.ErrDamaged) || !strings.Contains(err.Error(), "a/segments/000000000002 is of another backup") {
		t.Errorf("a segment of another journal, of the same number: %v", err)
	}
	write("a/segments/000000000002", swapped)
}

// wantPoints holds what a journal has against the points that were told of.
func wantPoints(t *testing.T, to transfer.Segments, points []transfer.Point) {
	t.Helper()
	for i, p := range points {
		until := p.Time
		if i+1 < len(points) && points[i+1].Time.Equal(until) {
			continue // the last one of a millisecond is restored
		}
		_, is, err := transfer.CheckJournal(t.Context(), to, until)
		if err != nil || is.Number < p.Number || is.Number == p.Number && is != p {
			t.Fatalf("until point %d of %d: %+v, %v, want %+v", i, len(points), is, err, p)
		}
	}
}

// TestKilledAtEachRequest: a command is killed at its first request, its second, and so on. What it has told of can be
// restored; what it has not told of is there as a whole or not at all; another one goes on in the same place, and removes
// what is of no use.
func TestKilledAtEachRequest(t *testing.T) {
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	r := newRig(t, 8, 1)
	var points []transfer.Point
	follow := func(b bucket.Bucket) error {
		if err := r.lanes[0].write(0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := 2
		return transfer.Follow(ctx, r.callAll, newBucket(b, "a"), time.Millisecond, func(p transfer.Point) {
			points = append(points, p)
			if left--; left == 0 {
				cancel()
			}
		})
	}
	for _, done := range []bool{false, true} {
		for n := 1; ; n++ {
			d := buckettest.NewDying(b, n, done)
			err := follow(d)
			if !d.Dead() {
				if n < 10 || !errors.Is(err, context.Canceled) {
					t.Fatalf("%d requests were made, %v", n, err)
				}
				break
			}
			if _, _, err := transfer.CheckJournal(t.Context(), newBucket(b, "a"), time.Time{}); err != nil && len(points) > 0 {
				t.Fatalf("killed at request %d: %v", n, err)
			}
			if err := follow(b); !errors.Is(err, context.Canceled) {
				t.Fatalf("after one that was killed at request %d: %v", n, err)
			}
		}
	}
	points = append(points, r.idle(newBucket(b, "a"), 2)...) // it tidies up behind the first
	wantPoints(t, newBucket(b, "a"), points)
	var made target
	if _, _, err := transfer.RestoreJournal(t.Context(), newBucket(b, "a"), time.Time{}, made.open, nil, nil); err != nil {
		t.Fatal(err)
	}
	if was, is := sums(t, r.store), sums(t, made.made); !slices.Equal(was, is) {
		t.Errorf("restored: %+v, want %+v", is, was)
	}
	wantNoWaste(t, b)
}

// wantNoWaste: each part is one that a segment has.
func wantNoWaste(t *testing.T, b bucket.Bucket) {
	t.Helper()
	for _, name := range names(t, b, "a/parts/") {
		of := strings.Split(name, "/") // a, parts, NUMBER, RUN, PART
		o, err := b.Get(t.Context(), "a/segments/"+of[2], "")
		if err != nil || !bytes.Contains(o.Data, []byte(of[3])) {
			t.Errorf("%s was left behind: %v", name, err)
		}
	}
}
