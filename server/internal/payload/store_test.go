package payload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/payload"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/postgres" // places of the tests
	_ "github.com/carillonhq/carillon/server/store/s3"
)

// clock is the stores' clock in a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(days int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.AddDate(0, 0, days)
}

func open(t *testing.T, o payload.Options) *payload.Store {
	t.Helper()
	s, err := payload.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// places are URLs of the kinds of places that tests have: a folder, a bucket and a database of real servers.
func places(t *testing.T) map[string]string {
	t.Helper()
	server := realserver.StartS3(t, "payloads")
	t.Setenv("AWS_ACCESS_KEY_ID", server.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	return map[string]string{"a folder": "file:" + t.TempDir(),
		"a database": realserver.StartPostgres(t, realserver.Volatile()...).Database(t),
		"a bucket":   "s3://payloads/here?region=us-east-1&path-style=yes&endpoint=" + server.Endpoint()}
}

func some(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b) // it never fails
	return b
}

func read(ctx context.Context, s *payload.Store, namespace string, ref carillon.PayloadRef) ([]byte, error) {
	r, err := s.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

// TestWhatWasPutIsGot, in its namespace only, whether it came as a stream or was in memory; and the same bytes
// on the same day are the same object.
func TestWhatWasPutIsGot(t *testing.T) {
	for name, url := range places(t) {
		t.Run(name, func(t *testing.T) { putAndGot(t, payload.Options{URL: url}) })
		t.Run(name+", encrypted", func(t *testing.T) {
			putAndGot(t, payload.Options{URL: url, Encryption: newKeys(t)}) // after what is there as it is
		})
	}
}

func putAndGot(t *testing.T, o payload.Options) {
	t.Helper()
	s, extra := open(t, o), 0
	if o.Encryption != nil {
		extra = 7
	}
	for _, n := range []int{1, 1000, 3 << 20} {
		data := some(n + extra)
		ref, err := s.Put(t.Context(), "ns", bytes.NewReader(data))
		if err != nil || ref.Size != int64(len(data)) {
			t.Fatalf("%v, %v", ref, err)
		}
		again, err := s.PutBytes(t.Context(), "ns", data)
		if err != nil || again != ref {
			t.Errorf("put again: %v, %v, want %v", again, err, ref)
		}
		if got, err := read(t.Context(), s, "ns", ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d of %d bytes, %v", len(got), len(data), err)
		}
		if _, err := read(t.Context(), s, "other", ref); !errors.Is(err, carillon.NotFound) {
			t.Errorf("another namespace: %v", err)
		}
		if got, err := s.Ensure(t.Context(), "ns", ref); err != nil || got != ref {
			t.Errorf("ensure: %v, %v", got, err)
		}
		if _, err := s.Ensure(t.Context(), "other", ref); !errors.Is(err, carillon.NotFound) {
			t.Errorf("ensure in another namespace: %v", err)
		}
	}
}

// TestAReferenceOfAnEarlierDayIsRenewed: its object may be about to be collected.
func TestAReferenceOfAnEarlierDayIsRenewed(t *testing.T) {
	c := newClock()
	s := open(t, payload.Options{URL: "file:" + t.TempDir(), Now: c.now})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		days int
		same bool
	}{{1, true}, {1, false}} {
		c.pass(step.days)
		got, err := s.Ensure(t.Context(), "ns", ref)
		if err != nil || !got.Same(&ref) || (got == ref) != step.same {
			t.Errorf("%d days later: %v, %v", got.Day-ref.Day, got, err)
		}
		if data, err := read(t.Context(), s, "ns", got); err != nil || string(data) != "x" {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// TestRenewalsDoNotWaitForPuts whose bytes do not come.
func TestRenewalsDoNotWaitForPuts(t *testing.T) {
	c := newClock()
	s := open(t, payload.Options{URL: "file:" + t.TempDir(), Now: c.now})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	c.pass(2)
	gone := errors.New("gone")
	var puts sync.WaitGroup
	var callers []*io.PipeWriter
	for range 16 {
		r, w := io.Pipe()
		puts.Go(func() {
			if _, err := s.Put(t.Context(), "ns", r); !errors.Is(err, carillon.Canceled) {
				t.Errorf("a put that breaks off: %v", err)
			}
		})
		if _, err := w.Write([]byte("begun")); err != nil {
			t.Fatal(err)
		}
		callers = append(callers, w)
	}
	if got, err := s.Ensure(t.Context(), "ns", ref); err != nil || !got.Same(&ref) || got == ref {
		t.Errorf("%v, %v", got, err)
	}
	for _, w := range callers {
		_ = w.CloseWithError(gone) // it never fails
	}
	puts.Wait()
}

func TestWhatIsNoPayloadIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, payload.Options{URL: "file:" + dir, Max: 1000})
	cut := errors.New("the connection is gone")
	for name, c := range map[string]struct {
		r    io.Reader
		kind carillon.Kind
	}{
		"empty":     {strings.NewReader(""), carillon.InvalidArgument},
		"too large": {bytes.NewReader(some(1001)), carillon.ResourceExhausted},
		"cut off":   {io.MultiReader(strings.NewReader("begun"), failing{cut}), carillon.Canceled},
		"broken":    {io.MultiReader(strings.NewReader("begun"), failing{io.ErrUnexpectedEOF}), carillon.Canceled},
		"hung up":   {io.MultiReader(strings.NewReader("begun"), failing{fmt.Errorf("read: %w", io.EOF)}), carillon.Canceled},
	} {
		if _, err := s.Put(t.Context(), "ns", c.r); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	if _, err := s.Put(t.Context(), "../ns", strings.NewReader("x")); !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("a namespace that is a path: %v", err)
	}
	if _, err := s.Put(t.Context(), "ns", bytes.NewReader(some(1000))); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d files are there, want 1", n)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// files are the paths of all files below a folder, without the one that says whose they are.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "OWNER" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDamage: whatever becomes of an object, its reader gives away the right bytes, or fails by DataLoss or
// NotFound, which are no reason to wait. To put the bytes again mends it.
func TestDamage(t *testing.T) {
	data := some(100_000)
	for name, damage := range map[string]func(path string) error{
		"gone":      os.Remove,
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 99_999) },
		"longer":    func(path string) error { return os.Truncate(path, 100_001) },
		"first bit": flip(0), "last bit": flip(99_999),
	} {
		dir := t.TempDir()
		s := open(t, payload.Options{URL: "file:" + dir})
		ref, err := s.PutBytes(t.Context(), "ns", data)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(files(t, dir)[0]); err != nil {
			t.Fatal(err)
		}
		got, err := read(t.Context(), s, "ns", ref)
		want := carillon.DataLoss
		if name == "gone" {
			want = carillon.NotFound
		}
		if !errors.Is(err, want) || len(got) == len(data) {
			t.Errorf("%s: %d bytes, %v; want %v", name, len(got), err, want)
		}
		if _, passes := s.PutOff(err); passes {
			t.Errorf("%s: it is waited for", name)
		}
		if _, err := s.Put(t.Context(), "ns", bytes.NewReader(data)); err != nil {
			t.Errorf("%s, and put again: %v", name, err)
		}
		if got, err := read(t.Context(), s, "ns", ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s, and put again: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestDamageInADatabase is told by name, and mended when the same bytes are put again.
func TestDamageInADatabase(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, payload.Options{URL: server.URL("postgres")})
	data := some(600 << 10)
	for _, damage := range []string{
		"DELETE FROM carillon_object_chunks WHERE number = 1",
		"DELETE FROM carillon_object_chunks WHERE number = 2",
		"UPDATE carillon_object_chunks SET data = '' WHERE number = 1",
		"UPDATE carillon_object_chunks SET data = substr(data, 2) WHERE number = 0",
		"UPDATE carillon_object_chunks SET data = data || 'x' WHERE number = 2",
		"UPDATE carillon_object_chunks SET data = set_byte(data, 7, get_byte(data, 7) # 1) WHERE number = 1",
		"UPDATE carillon_object_chunks SET number = number + 10 WHERE number > 0",
		"UPDATE carillon_objects SET size = size + 1 WHERE size > 100",
	} {
		ref, err := s.PutBytes(t.Context(), "ns", data)
		if err != nil {
			t.Fatalf("before %s: %v", damage, err)
		}
		if got, err := read(t.Context(), s, "ns", ref); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("before %s: %d bytes, %v", damage, len(got), err)
		}
		server.Exec(t, "postgres", damage)
		_, err = read(t.Context(), s, "ns", ref)
		if longer := strings.Contains(damage, "'x'"); longer && err != nil || !longer && !errors.Is(err, carillon.DataLoss) {
			t.Errorf("after %s: %v", damage, err) // nobody reads what is behind the end
		}
	}
}

func flip(at int64) func(path string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		b[0] ^= 1
		_, written := f.WriteAt(b, at)
		return errors.Join(err, written, f.Close())
	}
}

// TestAStoreThatIsAway refuses puts, and gets may pass: the folder is not mounted, the bucket's server is down.
func TestAStoreThatIsAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted")
	s := open(t, payload.Options{URL: "file:" + dir})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	wantAway(t, s, ref)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written where the folder is mounted: %v", err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), s, "ns", ref); err != nil || string(got) != "x" {
		t.Errorf("when it is back: %q, %v", got, err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	wantAway(t, open(t, payload.Options{ // which starts all the same
		URL: "s3://payloads?region=us-east-1&path-style=yes&endpoint=http://127.0.0.1:1"}), ref)
}

func wantAway(t *testing.T, s *payload.Store, ref carillon.PayloadRef) {
	t.Helper()
	_, err := s.PutBytes(t.Context(), "ns", []byte("y"))
	if !errors.Is(err, carillon.Unavailable) {
		t.Errorf("put: %v", err)
	}
	_, err = read(t.Context(), s, "ns", ref)
	if pause, passes := s.PutOff(err); !errors.Is(err, carillon.Unavailable) || !passes || pause <= 0 {
		t.Errorf("get: %v, put off by %v, %v", err, pause, passes)
	}
	if _, err := s.Ensure(t.Context(), "ns", ref); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("ensure: %v", err)
	}
}

// TestPausesGrow while nothing can be read, however many runs fail at the same time, and end with a success.
func TestPausesGrow(t *testing.T) {
	s := open(t, payload.Options{URL: "file:" + t.TempDir()})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	away := carillon.Errorf(carillon.Unavailable, "", "away")
	synctest.Test(t, func(t *testing.T) {
		last := time.Duration(0)
		for range 10 {
			first, _ := s.PutOff(away)
			for range 100 {
				if pause, passes := s.PutOff(away); !passes || pause != first {
					t.Errorf("at the same time: %v and %v", first, pause)
				}
			}
			if first <= last && first != time.Minute || first > time.Minute {
				t.Errorf("%v after %v", first, last)
			}
			last = first
			<-time.After(first)
		}
		if _, err := read(t.Context(), s, "ns", ref); err != nil {
			t.Fatal(err)
		}
		if pause, _ := s.PutOff(away); pause != time.Second {
			t.Errorf("after a success: %v", pause)
		}
	})
}

func TestANodeWithoutAStoreRefuses(t *testing.T) {
	var none *payload.Store
	_, err := none.PutBytes(t.Context(), "ns", []byte("x"))
	_, got := none.Get(t.Context(), "ns", carillon.PayloadRef{})
	_, ensured := none.Ensure(t.Context(), "ns", carillon.PayloadRef{})
	_, collected := none.Collect(t.Context(), nil)
	for _, err := range []error{err, got, ensured, collected} {
		if !errors.Is(err, carillon.FailedPrecondition) || !strings.Contains(err.Error(), "--payload-store") {
			t.Errorf("%v", err)
		}
	}
	if _, passes := none.PutOff(got); !passes {
		t.Error("a run fails because the node that has it has no store")
	}
}

// TestWithoutAPlaceOnTheWay a store does not open, and says which folder is meant.
func TestWithoutAPlaceOnTheWay(t *testing.T) {
	dir, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	_, err := payload.Open(t.Context(), payload.Options{URL: "file:" + dir})
	if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%v", err)
	}
}

func TestRedact(t *testing.T) {
	for url, want := range map[string]string{
		"file:/a": "file:/a", "s3://b/p?region=r": "s3://b/p?region=r",
		"postgres://u:secret@h/d?password=secret":               "postgres://u@h/d",
		"postgres://u:secret@h/d?search_path=s&password=secret": "postgres://u@h/d?search_path=s",
	} {
		if got := payload.Redact(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestWrongURLs(t *testing.T) {
	for _, url := range []string{"", "file:", "file://host/dir", "/dir", "ftp://host/dir", "pebble:dir", "s3://",
		"s3://b?commit-every=1s", "s3://b?records=7", "s3://b?x=y"} {
		if err := (payload.Options{URL: url}).Check(); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
	for _, most := range []int64{-1, carillon.MaxStoredPayload + 1} {
		if err := (payload.Options{URL: "file:x", Max: most}).Check(); err == nil {
			t.Errorf("a maximum of %d is accepted", most)
		}
	}
}
