package pebble_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

var damages = flag.Int("damages", 2, "places of each file at which TestDamage spoils it")

// TestDamage spoils each file of a store, one at a time: bits, holes of zeros, cuts, files that are empty,
// missing, or stand under each other's names. Each start has all that was acknowledged, or is refused, or
// says at the read that it is damaged. In the short form the stores are small.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name string
		size sizes // with a small memtable most is in tables
		jobs int
		only string // what the names of the files end with
		end  func(p *process, t *testing.T) int
	}{
		{"closed", sizes{1 << 20, 5}, 12_000, "", (*process).end},
		{"killed", sizes{1 << 20, 5}, 12_000, "", (*process).kill},
		{"logs of large batches, closed", sizes{64 << 20, 500}, 10_000, ".log", (*process).end},
		{"logs of large batches, killed", sizes{64 << 20, 500}, 30_000, ".log", (*process).kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			p := startWriter(t, dir, c.size)
			if testing.Short() {
				c.jobs /= 10
			}
			p.until(t, c.jobs)
			d := &damager{t: t, dir: dir, acked: c.end(p, t), batch: c.size.batch, only: c.only,
				r: rand.New(rand.NewPCG(1, 2)), seen: map[string]int{}}
			d.try("undamaged", func(string) {})
			if d.seen["right"] != 1 {
				t.Fatalf("what is not damaged: %v", d.seen)
			}
			d.all()
			t.Log(d.seen)
		})
	}
}

// damager spoils copies of a folder.
type damager struct {
	t     *testing.T
	dir   string
	acked int
	batch int    // jobs of a batch
	only  string // what the names of the files end with
	r     *rand.Rand
	seen  map[string]int // how starts ended
}

// all spoils every file in every way.
func (d *damager) all() {
	names := d.files()
	for i, name := range names {
		places := *damages
		if testing.Short() {
			places = 1
		}
		for range places {
			d.bytes(name, "bit", func(b []byte) []byte {
				b[d.r.IntN(len(b))] ^= 1 << d.r.IntN(8)
				return b
			})
			d.bytes(name, "hole", func(b []byte) []byte {
				at := d.r.IntN(len(b))
				clear(b[at:min(at+1+d.r.IntN(8<<10), len(b))])
				return b
			})
			d.bytes(name, "cut", func(b []byte) []byte { return b[:d.r.IntN(len(b))] })
		}
		d.bytes(name, "last bit", func(b []byte) []byte {
			b[len(b)-1] ^= 1
			return b
		})
		d.bytes(name, "emptied", func([]byte) []byte { return nil })
		d.try(name+" removed", func(copied string) {
			if err := os.Remove(filepath.Join(copied, name)); err != nil {
				d.t.Fatal(err)
			}
		})
		for _, other := range names[i+1:] {
			if kindOf(name) == kindOf(other) {
				d.try(name+" and "+other+" swapped", func(copied string) { swap(d.t, copied, name, other) })
			}
		}
	}
	d.together("*.log")
	if d.only == "" {
		d.together("*.sst")
		d.together("MANIFEST-*")
		d.together("marker.*")
	}
}

// kindOf groups files whose names differ in numbers.
func kindOf(name string) string { return strings.Trim(filepath.Base(name), "0123456789") }

// swap exchanges two files.
func swap(t *testing.T, dir, a, b string) {
	t.Helper()
	a, b = filepath.Join(dir, a), filepath.Join(dir, b)
	for _, step := range [][2]string{{a, a + "~"}, {b, a}, {a + "~", b}} {
		if err := os.Rename(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// together removes all files of a kind.
func (d *damager) together(pattern string) {
	d.try("all "+pattern+" removed", func(copied string) {
		for _, name := range files(d.t, copied, pattern) {
			if err := os.Remove(name); err != nil {
				d.t.Fatal(err)
			}
		}
	})
}

// files are the folder's, without the lock files, which are empty and made again.
func (d *damager) files() (names []string) {
	d.t.Helper()
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" || !strings.HasSuffix(e.Name(), d.only) {
			return err
		}
		name, err := filepath.Rel(d.dir, path)
		names = append(names, name)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return names
}

// bytes spoils the content of a file that has one.
func (d *damager) bytes(name, what string, change func(b []byte) []byte) {
	d.t.Helper()
	whole, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	if len(whole) == 0 {
		return
	}
	before := string(whole)
	after := change(whole)
	if before == string(after) {
		return // a hole in zeros
	}
	d.try(name+" "+what, func(copied string) {
		path := filepath.Join(copied, name)
		if err := errors.Join(os.Remove(path), os.WriteFile(path, after, 0o600)); err != nil {
			d.t.Fatal(err)
		}
	})
}

// try starts a spoiled copy.
func (d *damager) try(what string, spoil func(copied string)) {
	d.t.Helper()
	copied := filepath.Join(d.t.TempDir(), "copy")
	linkAll(d.t, d.dir, copied)
	spoil(copied)
	got, err := d.start(copied)
	d.seen[got]++
	if got == "wrong" {
		d.t.Errorf("%s: %v", what, err)
	}
	if err := os.RemoveAll(copied); err != nil {
		d.t.Fatal(err)
	}
}

// linkAll makes a copy of links: a store changes no file in place that it did not make itself.
func linkAll(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		}
		return os.Link(path, filepath.Join(to, rel))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// start opens a folder and looks for all that was acknowledged: it is right, refused, found at a read, or
// wrong.
func (d *damager) start(dir string) (got string, err error) {
	s, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		f, ok := errors.AsType[*pebble.FolderError](err)
		if !ok || !errors.Is(err, pebble.ErrDamaged) && !errors.Is(err, pebble.ErrNewer) ||
			!strings.Contains(f.Error(), dir) {
			return "wrong", fmt.Errorf("refused without a word on what to do: %w", err)
		}
		return "refused", err
	}
	missing, err := d.missing(s)
	if cerr := s.Close(); cerr != nil && err == nil {
		err = cerr
	}
	switch {
	case errors.Is(err, store.ErrDamaged) || errors.Is(err, pebble.ErrDamaged):
		return "found at a read", err
	case err != nil:
		return "wrong", err
	case missing > 0:
		return "wrong", fmt.Errorf("%d of %d acknowledged jobs are not there, and nothing said so",
			missing, d.acked)
	}
	return "right", nil
}

// missing is how many acknowledged jobs the store does not have.
func (d *damager) missing(s *pebble.Store) (missing int, err error) {
	shards := own(d.t, s, writerPartitions)
	refs := make([][]store.Ref, writerPartitions)
	dues := make([][]int64, writerPartitions)
	for i := range d.acked {
		p := i / d.batch % writerPartitions
		refs[p], dues[p] = append(refs[p], store.Ref{Key: key(i)}), append(dues[p], int64(i+1))
	}
	for p, sh := range shards {
		got, err := sh.Read(d.t.Context(), refs[p])
		if err != nil {
			return 0, err
		}
		for i, r := range got {
			if !r.Exists || r.State.Due != dues[p][i] || len(r.Spec) != len(benchSpec) {
				missing++
			}
		}
	}
	return missing, nil
}
