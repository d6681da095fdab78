package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Folder keeps the segments of a journal in a folder, of which only the owner may read the files.
//
//	00000001-20261128T093000.000Z-base   a base, which ends with a point of that time
//	00000002-20261128T093010.012Z
//	part-…                               is being written, or was when its process was killed
type Folder struct {
	Path string
	// Warn is called if something is damaged that is not needed. Default: nobody hears of it.
	Warn func(error)
}

// segmentTime is how the time of a point is written in a name.
const segmentTime = "20060102T150405.000Z"

var segmentName = regexp.MustCompile(`^(\d{8,})-(\d{8}T\d{6}\.\d{3}Z)(-base)?$`)

// nameOf is the name of a segment.
func nameOf(p Point) string {
	name := fmt.Sprintf("%08d-%s", p.Number, p.Time.UTC().Format(segmentTime))
	if p.Base {
		name += "-base"
	}
	return name
}

// segmentOf reads the name of a segment.
func segmentOf(name string) (s Stored, ok bool) {
	m := segmentName.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	number, err := strconv.Atoi(m[1])
	t, wrong := time.Parse(segmentTime, m[2])
	return Stored{Number: number, Base: m[3] != "", Time: t, Name: name}, err == nil && wrong == nil
}

// list returns the segments that are there, by number.
func (f Folder) list() (all []Stored, err error) {
	files, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if s, ok := segmentOf(file.Name()); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Stored) int { return a.Number - b.Number })
	for i := 1; i < len(all); i++ {
		if all[i].Number == all[i-1].Number || all[i].Time.Before(all[i-1].Time) {
			return nil, fmt.Errorf("%w: segments %s and %s", ErrDamaged, all[i-1].Name, all[i].Name)
		}
	}
	return all, nil
}

// Last implements [Segments].
func (f Folder) Last(_ context.Context, below int) (last Stored, err error) {
	all, err := f.list()
	for _, s := range all {
		if below == 0 || s.Number < below {
			last = s
		}
	}
	return last, err
}

// Warned implements [Segments].
func (f Folder) Warned(err error) {
	if f.Warn != nil {
		f.Warn(err)
	}
}

// Chain implements [Segments].
func (f Folder) Chain(_ context.Context, until time.Time) (chain []Stored, err error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errNoBackup
	}
	missing := 0
	for _, s := range all {
		if !until.IsZero() && s.Time.After(until) {
			break
		}
		switch {
		case s.Base:
			chain, missing = nil, 0
		case len(chain) == 0 || chain[len(chain)-1].Number != s.Number-1:
			missing = cmp.Or(missing, s.Number-1)
		}
		chain = append(chain, s)
	}
	switch {
	case len(chain) == 0:
		return nil, errBefore(all[0].Time)
	case missing > 0:
		return nil, errMissing(missing)
	}
	return chain, nil
}

// Create implements [Segments].
func (f Folder) Create(context.Context, int, int) (Segment, error) {
	file, err := os.CreateTemp(f.Path, "part-*") // only for its owner to read
	if err != nil {
		return nil, err
	}
	return &fileSegment{File: file, folder: f.Path}, nil
}

// Tidy implements [Segments]. A file that is being written cannot be told from one that was.
func (Folder) Tidy(context.Context, int) {}

// Open implements [Segments].
func (f Folder) Open(_ context.Context, s Stored) (io.ReadCloser, error) {
	return os.Open(filepath.Join(f.Path, s.Name))
}

// fileSegment is a segment that is written.
type fileSegment struct {
	*os.File

	folder string
}

// Settle implements [Segment].
func (s *fileSegment) Settle() error { return nil }

// Commit implements [Segment].
func (s *fileSegment) Commit(p Point) error {
	err := errors.Join(s.Sync(), s.Close())
	if err == nil {
		err = os.Rename(s.Name(), filepath.Join(s.folder, nameOf(p)))
	}
	if err != nil {
		return errors.Join(err, os.Remove(s.Name()))
	}
	folder, err := os.Open(s.folder)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Discard implements [Segment].
func (s *fileSegment) Discard() error { return errors.Join(s.Close(), os.Remove(s.Name())) }
