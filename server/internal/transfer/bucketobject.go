package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// The object of a segment is a line, with the SHA-256 of its JSON before that, and the rest of the segment.
// What comes before the rest is in parts, which are objects of their own. So a small segment is one object.
//
//	SHA256 {"magic":"carillon segment","number":7,"run":"…","parts":[{"bytes":8388608,"sha256":"…"}],"rest":{…}}
//	…
const (
	objectMagic   = "carillon segment"
	objectVersion = 1
)

// chainID says to which chain a segment belongs: a base, and what the same command has written after it.
type chainID struct {
	Run  string `json:"run"`  // of the command, drawn at random
	Base int    `json:"from"` // the number of the base
}

// objectHead is the line.
type objectHead struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	Point
	chainID

	Parts []objectSum `json:"parts,omitempty"`
	Rest  objectSum   `json:"rest"`
}

// objectSum is what a part was when it was written.
type objectSum struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func sumOf(data []byte) objectSum {
	sum := sha256.Sum256(data)
	return objectSum{len(data), hex.EncodeToString(sum[:])}
}

// encodeObject is the object of a segment.
func encodeObject(h objectHead, rest []byte) ([]byte, error) {
	h.Magic, h.Version, h.Rest = objectMagic, objectVersion, sumOf(rest)
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	out := append([]byte(sumOf(line).SHA256), ' ')
	return append(append(append(out, line...), '\n'), rest...), nil
}

// errVersion is the error of an object that is not damaged, but of another program.
var errVersion = errors.New("it is of version")

// decodeObject reads the object of a segment.
func decodeObject(number int, data []byte) (h objectHead, rest []byte, err error) {
	line, rest, whole := bytes.Cut(data, []byte{'\n'})
	sum, text, found := bytes.Cut(line, []byte{' '})
	if !whole || !found || string(sum) != sumOf(text).SHA256 {
		return h, nil, errors.New("it does not begin as a segment does")
	}
	if err := json.Unmarshal(text, &h); err != nil || h.Magic != objectMagic {
		return h, nil, errors.New("it is no segment")
	}
	switch {
	case h.Version != objectVersion:
		return h, nil, fmt.Errorf("%w %d, this program knows %d", errVersion, h.Version, objectVersion)
	case h.Number != number:
		return h, nil, fmt.Errorf("it says to be segment %d", h.Number)
	case h.Rest != sumOf(rest):
		return h, nil, errors.New("it is not what was written")
	}
	return h, rest, nil
}

// Names of objects, behind the prefix.
const (
	segmentsFolder = "segments/"
	partsFolder    = "parts/"
)

var objectName = regexp.MustCompile(`^\d{12}$`)

func (b *Bucket) segmentName(number int) string {
	return fmt.Sprintf("%s%s%012d", b.prefix, segmentsFolder, number)
}

func (b *Bucket) partName(number int, run string, part int) string {
	return fmt.Sprintf("%s%s%012d/%s/%06d", b.prefix, partsFolder, number, run, part)
}

const (
	// requestWithin is how long a request may take: an object has some MiB.
	requestWithin = time.Minute
	// mostAway is how long a bucket is asked again that does not answer.
	mostAway = 5 * time.Minute

	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// errOther: there is another object of that name.
var errOther = errors.New("there is another object of that name")

// again does something until the bucket has answered.
func (b *Bucket) again(ctx context.Context, do func(context.Context) error) error {
	end := time.Now().Add(b.away)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		within, done := context.WithTimeout(ctx, requestWithin)
		err := do(within)
		done()
		for _, final := range []error{bucket.ErrRefused, bucket.ErrAbsent, errOther, ErrDamaged} {
			if errors.Is(err, final) {
				return err
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return noAnswer{context.Cause(ctx)}
		case <-time.After(pause):
		}
		if time.Now().After(end) {
			return noAnswer{fmt.Errorf("the bucket has not answered for %v: %w", b.away, err)}
		}
	}
}

// put creates an object and reads it back, whatever the answer was: what failed may have been done, and may
// still come. After any error it may be there, also after [bucket.ErrRefused]; after errOther it is not,
// unless somebody has changed it.
func (b *Bucket) put(ctx context.Context, name string, data []byte) error {
	err := b.again(ctx, func(ctx context.Context) error {
		_, failed := b.to.Create(ctx, name, data)
		if errors.Is(failed, bucket.ErrRefused) {
			return failed
		}
		found, err := b.to.Get(ctx, name, "")
		switch {
		case errors.Is(err, bucket.ErrAbsent):
			return fmt.Errorf("it is not there, though it was written: %w", errors.Join(failed, errNotThere))
		case err != nil:
			return errors.Join(failed, err)
		case bytes.Equal(found.Data, data):
			return nil
		case failed == nil:
			return fmt.Errorf("%w: what was read back is not what was written", ErrDamaged)
		}
		return errOther
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

var errNotThere = errors.New("no such object")

// get reads an object. One that is not there is damage: something says that it is.
func (b *Bucket) get(ctx context.Context, name string) (data []byte, err error) {
	err = b.again(ctx, func(ctx context.Context) error {
		found, err := b.to.Get(ctx, name, "")
		data = found.Data
		return err
	})
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return nil, fmt.Errorf("%w: object %s is missing", ErrDamaged, name)
	case err != nil:
		return nil, noAnswer{fmt.Errorf("read %s: %w", name, err)}
	}
	return data, nil
}

// object reads the object of a segment.
func (b *Bucket) object(ctx context.Context, number int) (h objectHead, rest []byte, err error) {
	name := b.segmentName(number)
	data, err := b.get(ctx, name)
	if err != nil {
		return h, nil, err
	}
	h, rest, err = decodeObject(number, data)
	switch {
	case errors.Is(err, errVersion):
		return h, nil, fmt.Errorf("object %s: %w", name, err)
	case err != nil:
		return h, nil, fmt.Errorf("%w: object %s: %w", ErrDamaged, name, err)
	}
	return h, rest, nil
}

// list calls take with the names in a folder that come after one.
func (b *Bucket) list(ctx context.Context, folder, after string, take func(name string)) error {
	if after != "" {
		after = b.prefix + folder + after
	}
	for {
		var page bucket.Page
		err := b.again(ctx, func(ctx context.Context) (err error) {
			page, err = b.to.List(ctx, b.prefix+folder, after, bucket.MostListed)
			return err
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", b.prefix+folder, err)
		}
		for _, e := range page.Entries {
			after = e.Name
			take(e.Name[len(b.prefix+folder):])
		}
		if !page.More {
			return nil
		}
	}
}

// numbers returns the numbers of the segments that are there.
func (b *Bucket) numbers(ctx context.Context) (all []int, err error) {
	err = b.list(ctx, segmentsFolder, "", func(name string) {
		if number, wrong := strconv.Atoi(name); wrong == nil && objectName.MatchString(name) && number > 0 {
			all = append(all, number)
		}
	})
	return all, err
}
