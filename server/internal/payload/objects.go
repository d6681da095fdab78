package payload

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// objects is where payloads are kept: a folder, a bucket, or tables that are as one. Its errors are those of
// package bucket.
type objects interface {
	bucket.Streamer
	// Get and Create are for small objects. Of several that create one at the same time one succeeds; the others
	// get [bucket.ErrExists].
	Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error)
	Create(ctx context.Context, name string, data []byte) (bucket.Version, error)
	// Delete removes an object, which need not be there.
	Delete(ctx context.Context, name string) error
	// Size returns the size of an object; [bucket.ErrAbsent] if there is none.
	Size(ctx context.Context, name string) (int64, error)
	// Settle returns nil once an object that was seen is durable: who wrote it may not have been told so.
	Settle(ctx context.Context, name string) error
	// Each calls f with the objects whose names begin with a prefix, which ends in a slash, and come after one,
	// until f returns an error, which Each returns. They come in an order of the names in which days are in
	// order.
	Each(ctx context.Context, prefix, after string, f func(bucket.Entry) error) error
}

// FolderScheme begins the URLs of folders: file:DIR.
const FolderScheme = "file:"

// Redact is a URL of a payload store without what is secret in it. It says which place it is: of a database
// the schema, too.
func Redact(text string) string {
	if strings.HasPrefix(text, FolderScheme) {
		return text
	}
	shown := store.Redact(text)
	if u, err := url.Parse(text); err == nil && shown != text && u.Query().Has("search_path") {
		shown += "?search_path=" + url.QueryEscape(u.Query().Get("search_path"))
	}
	return shown
}

// place is a URL that was read.
type place struct {
	folder string // empty: it is a bucket
	bucket bucket.Place
}

// defaultPrefix begins the names of objects in a bucket whose URL has no path, as it does for a store there.
const defaultPrefix = "carillon"

// parse reads the URL of a payload store.
func parse(text string) (p place, err error) {
	if dir, ok := strings.CutPrefix(text, FolderScheme); ok {
		if strings.HasPrefix(dir, "//") {
			return p, fmt.Errorf("%q is no folder: write file:DIR, such as file:/var/lib/carillon-payloads", text)
		}
		if dir == "" {
			return p, errors.New("file: names no folder: write file:DIR")
		}
		return place{folder: dir}, nil
	}
	if p.bucket, err = bucket.Parse(text); err != nil {
		return p, fmt.Errorf("%w; and a folder is file:DIR", err)
	}
	if p.bucket.Prefix == "" {
		p.bucket.Prefix = defaultPrefix
	}
	return p, nil
}

// connect returns the objects of a place, and what the names of all of them begin with.
func (p place) connect(ctx context.Context) (objects, string, error) {
	if p.folder != "" {
		return newFolder(p.folder), "", nil
	}
	b, err := p.bucket.Connect(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	s, ok := b.(bucket.Streamer)
	if !ok {
		return nil, "", fmt.Errorf("a %T does not stream objects", b)
	}
	return inBucket{b, s}, p.bucket.Prefix + "/", nil
}

// inBucket are the objects of a bucket.
type inBucket struct {
	bucket.Bucket
	bucket.Streamer
}

// Close ends the connections that the store has. Nothing else may be called any more.
func (s *Store) Close() {
	if s == nil {
		return
	}
	if c, ok := s.objects.(interface{ Close() }); ok {
		c.Close()
	}
}

// Close ends the connections of a database.
func (b inBucket) Close() {
	if c, ok := b.Bucket.(interface{ Close() }); ok {
		c.Close()
	}
}

// Size implements objects. Of most buckets the list has it, with the first object whose name begins so; in
// tables a list of one reads on behind that.
func (b inBucket) Size(ctx context.Context, name string) (int64, error) {
	if s, ok := b.Bucket.(bucket.Sizer); ok {
		return s.Size(ctx, name)
	}
	page, err := b.List(ctx, name, "", 1)
	switch {
	case err != nil:
		return 0, err
	case len(page.Entries) == 0 || page.Entries[0].Name != name:
		return 0, bucket.ErrAbsent
	}
	return page.Entries[0].Size, nil
}

// Settle implements objects. What is seen in most buckets is durable.
func (b inBucket) Settle(ctx context.Context, name string) error {
	if s, ok := b.Bucket.(bucket.Settler); ok {
		return s.Settle(ctx, name)
	}
	return nil
}

// Each implements objects.
func (b inBucket) Each(ctx context.Context, prefix, after string, f func(bucket.Entry) error) error {
	for {
		page, err := b.listed(ctx, prefix, after)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := f(e); err != nil {
				return err
			}
			after = e.Name
		}
		if !page.More {
			return nil
		}
	}
}

// listed lists a page, within the time that an answer may take.
func (b inBucket) listed(ctx context.Context, prefix, after string) (bucket.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return b.List(ctx, prefix, after, bucket.MostListed)
}
