// Package buckettest holds a bucket of a real server against what [bucket.Bucket] promises.
package buckettest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Run uses names that begin with a prefix of which nothing is there.
func Run(t *testing.T, b bucket.Bucket, prefix string) {
	for name, check := range map[string]func(*testing.T, bucket.Bucket, string){
		"an object is created once": createdOnce, "an object is replaced once": replacedOnce,
		"what is gone": gone, "what has not changed is not read": unchanged, "lists": lists, "large": large,
		"streams": streams,
	} {
		t.Run(name, func(t *testing.T) { check(t, b, prefix+strings.ReplaceAll(name, " ", "-")+"/") })
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const (
	writers  = 8
	contests = 20
)

// contest has writers write at the same time, and returns what the one wrote that was not told so: there must
// be one.
func contest(t *testing.T, n int, write func(data []byte) (bucket.Version, error),
	lost error) (data []byte, v bucket.Version) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	won := 0
	for i := range writers {
		all.Go(func() {
			mine := fmt.Appendf(nil, "by writer %d of contest %d", i, n)
			is, err := write(mine)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
				data, v = mine, is
			} else if !errors.Is(err, lost) {
				t.Errorf("writer %d: %v, want %v", i, err, lost)
			}
		})
	}
	all.Wait()
	if won != 1 {
		t.Fatalf("%d of %d writers wrote, want 1", won, writers)
	}
	return data, v
}

func createdOnce(t *testing.T, b bucket.Bucket, prefix string) {
	for n := range contests {
		name := fmt.Sprintf("%s%03d", prefix, n)
		data, v := contest(t, n, func(data []byte) (bucket.Version, error) {
			return b.Create(t.Context(), name, data)
		}, bucket.ErrExists)
		wantObject(t, b, name, data, v)
	}
}

func wantObject(t *testing.T, b bucket.Bucket, name string, data []byte, v bucket.Version) {
	t.Helper()
	is := must[bucket.Object](t)(b.Get(t.Context(), name, ""))
	if !bytes.Equal(is.Data, data) || is.Version != v {
		t.Fatalf("%s holds %.40q of version %s, want %.40q of %s", name, is.Data, is.Version, data, v)
	}
}

func replacedOnce(t *testing.T, b bucket.Bucket, prefix string) {
	name := prefix + "object"
	was := must[bucket.Version](t)(b.Create(t.Context(), name, []byte("first")))
	for n := range contests {
		data, v := contest(t, n, func(data []byte) (bucket.Version, error) {
			return b.Replace(t.Context(), name, data, was)
		}, bucket.ErrChanged)
		if v == was {
			t.Fatalf("a write has left the version at %s", v)
		}
		wantObject(t, b, name, data, v)
		was = v
	}
}

func gone(t *testing.T, b bucket.Bucket, prefix string) {
	name := prefix + "object"
	if _, err := b.Get(t.Context(), name, ""); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("read of what was never there: %v", err)
	}
	if err := b.Delete(t.Context(), name); err != nil {
		t.Errorf("delete of what was never there: %v", err)
	}
	was := must[bucket.Version](t)(b.Create(t.Context(), name, []byte("first")))
	for range 2 {
		if err := b.Delete(t.Context(), name); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := b.Get(t.Context(), name, was); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("read of what is gone: %v", err)
	}
	if _, err := b.Replace(t.Context(), name, []byte("second"), was); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("replace of what is gone: %v", err)
	}
	again := must[bucket.Version](t)(b.Create(t.Context(), name, []byte("first")))
	wantObject(t, b, name, []byte("first"), again)
}

func unchanged(t *testing.T, b bucket.Bucket, prefix string) {
	name := prefix + "object"
	v := must[bucket.Version](t)(b.Create(t.Context(), name, []byte("first")))
	if _, err := b.Get(t.Context(), name, v); !errors.Is(err, bucket.ErrSame) {
		t.Errorf("read of what is known: %v", err)
	}
	next := must[bucket.Version](t)(b.Replace(t.Context(), name, nil, v))
	if is := must[bucket.Object](t)(b.Get(t.Context(), name, v)); is.Version != next || len(is.Data) != 0 {
		t.Errorf("read of what has changed: %.40q of version %s, want nothing of %s", is.Data, is.Version, next)
	}
}

func lists(t *testing.T, b bucket.Bucket, prefix string) {
	var names []string
	for _, folder := range []string{"a/", "b/", "b0/"} {
		for n := range 12 {
			name := fmt.Sprintf("%s%s%012d", prefix, folder, n)
			_ = must[bucket.Version](t)(b.Create(t.Context(), name, []byte(name)))
			names = append(names, name)
		}
	}
	want := func(prefix, after string, all []string) {
		t.Helper()
		for _, limit := range []int{1, 5, 12, bucket.MostListed} {
			var got []string
			for page := (bucket.Page{More: true}); page.More; {
				from := after
				if len(got) > 0 {
					from = got[len(got)-1]
				}
				page = must[bucket.Page](t)(b.List(t.Context(), prefix, from, limit))
				if len(page.Entries) > limit || page.More && len(page.Entries) == 0 {
					t.Fatalf("a list of %d has %d: %+v", limit, len(page.Entries), page)
				}
				for _, e := range page.Entries {
					got = append(got, e.Name)
					if e.Size != int64(len(e.Name)) || e.Modified.IsZero() {
						t.Errorf("list: %+v, want the size %d and a time", e, len(e.Name))
					}
				}
			}
			if !slices.Equal(got, all) {
				t.Errorf("list of %s behind %q by %d:\n%s\nwant\n%s", prefix, after, limit,
					strings.Join(got, "\n"), strings.Join(all, "\n"))
			}
		}
	}
	want(prefix, "", names)
	want(prefix+"b/", "", names[12:24])
	want(prefix+"b/", names[14], names[15:24])
	want(prefix+"b/", names[14]+"0", names[15:24]) // which is not there
	want(prefix+"b/", names[23], nil)
	want(prefix+"c/", "", nil)
	if err := b.Delete(t.Context(), names[15]); err != nil {
		t.Fatal(err)
	}
	want(prefix+"b/", names[14], names[16:24])
}

func large(t *testing.T, b bucket.Bucket, prefix string) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 20<<20/16)
	v := must[bucket.Version](t)(b.Create(t.Context(), prefix+"object", data))
	wantObject(t, b, prefix+"object", data, v)
	v = must[bucket.Version](t)(b.Replace(t.Context(), prefix+"object", data[1:], v))
	wantObject(t, b, prefix+"object", data[1:], v)
}

// streams holds a bucket against [bucket.Streamer]: what is written from a reader is read by a reader, once.
func streams(t *testing.T, b bucket.Bucket, prefix string) {
	s, ok := b.(bucket.Streamer)
	if !ok {
		t.Fatalf("a %T does not stream", b)
	}
	name := prefix + "object"
	if _, _, err := s.Open(t.Context(), name); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("open of what was never there: %v", err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, from := range [][]byte{data, nil} { // a second one finds it there, whatever it has
		r := bytes.NewReader(from)
		err := s.CreateFrom(t.Context(), name, r, int64(len(from)))
		if from == nil && !errors.Is(err, bucket.ErrExists) || from != nil && err != nil {
			t.Fatalf("create from %d bytes: %v", len(from), err)
		}
	}
	r, size, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || size != int64(len(data)) || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, said to be %d, of %d: %v", len(got), size, len(data), err)
	}
	page := must[bucket.Page](t)(b.List(t.Context(), name, "", 1))
	if len(page.Entries) != 1 || page.Entries[0].Size != int64(len(data)) {
		t.Errorf("the list has %+v", page.Entries)
	}
}
