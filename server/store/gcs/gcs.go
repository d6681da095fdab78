// Package gcs opens stores in buckets of Google Cloud Storage, by its JSON API and its conditions on
// generations.
package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	transport "google.golang.org/api/transport/http"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Options of a bucket. Bucket is needed.
type Options struct {
	Bucket string
	// Endpoint is the URL of another server than Google's.
	Endpoint string
	// Anonymous leaves the credentials out, for servers that want none. Otherwise they are those of the
	// environment: Application Default Credentials.
	Anonymous bool
}

// client is a bucket.
type client struct {
	name    string
	objects *storage.ObjectsService
}

var (
	_ bucket.Bucket   = (*client)(nil)
	_ bucket.Streamer = (*client)(nil)
)

// New returns a bucket. A watch, if there is one, sees its requests. It does not ask whether the
// bucket is there.
func New(ctx context.Context, o Options, w *bucket.Watch) (bucket.Bucket, error) {
	// The credentials are asked for again as long as the bucket is used.
	ctx = context.WithoutCancel(ctx)
	options := []option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope)}
	if o.Anonymous {
		options = append(options, option.WithoutAuthentication())
	}
	authorized, err := transport.NewTransport(ctx, w.Transport(), options...)
	if err != nil {
		return nil, fmt.Errorf("store: gs: the credentials of Google in the environment: %w", err)
	}
	options = []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: authorized})}
	if o.Endpoint != "" {
		options = append(options, option.WithEndpoint(o.Endpoint+"/storage/v1/"))
	}
	service, err := storage.NewService(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("store: gs: %w", err)
	}
	return &client{o.Bucket, service.Objects}, nil
}

// status is the HTTP status of an error; 0 if there was no answer.
func status(err error) int {
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		return answer.Code
	}
	return 0
}

// refused marks what will not pass by itself.
func (c *client) refused(err error) error {
	switch status(err) {
	case http.StatusNotFound: // what is asked for here need not be there itself
		return fmt.Errorf("%w: there is no bucket %q: %w", bucket.ErrRefused, c.name, err)
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", bucket.ErrRefused, err)
	}
	return err
}

// generation reads a version.
func generation(v bucket.Version) (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the version of an object of gs: %w", v, err)
	}
	return n, nil
}

// Get implements [bucket.Bucket].
func (c *client) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	q := c.objects.Get(c.name, name).Context(ctx)
	if known != "" {
		is, err := generation(known)
		if err != nil {
			return bucket.Object{}, err
		}
		q.IfGenerationNotMatch(is)
	}
	answer, err := q.Download()
	switch status(err) {
	case http.StatusNotFound: // or there is no bucket, which the first write tells
		return bucket.Object{}, bucket.ErrAbsent
	case http.StatusNotModified:
		return bucket.Object{}, bucket.ErrSame
	}
	if err != nil {
		return bucket.Object{}, c.refused(err)
	}
	data, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return bucket.Object{}, fmt.Errorf("read %s: %w", name, err)
	}
	is := bucket.Version(answer.Header.Get("X-Goog-Generation"))
	if is == known { // not all servers look at the condition of a read
		return bucket.Object{}, bucket.ErrSame
	}
	return bucket.Object{Data: data, Version: is}, nil
}

// Open implements [bucket.Streamer].
func (c *client) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	answer, err := c.objects.Get(c.name, name).Context(ctx).Download()
	switch {
	case status(err) == http.StatusNotFound: // or there is no bucket, which the first write tells
		return nil, 0, bucket.ErrAbsent
	case err != nil:
		return nil, 0, c.refused(err)
	}
	return answer.Body, answer.ContentLength, nil
}

// CreateFrom implements [bucket.Streamer].
func (c *client) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, _ int64) error {
	_, err := c.put(ctx, name, r, 0, bucket.ErrExists)
	return err
}

// put writes an object if it has that generation; 0 is that of none. It is not there otherwise, or at all if
// its error is err.
func (c *client) put(ctx context.Context, name string, data io.Reader, was int64,
	otherwise error) (bucket.Version, error) {
	is, err := c.objects.Insert(c.name, &storage.Object{Name: name}).Context(ctx).IfGenerationMatch(was).
		Media(data, googleapi.ContentType("application/octet-stream"), googleapi.ChunkSize(0)).
		WithRetry(nil, func(error) bool { return false }).Fields("generation").Do()
	if status(err) == http.StatusPreconditionFailed {
		return "", otherwise
	}
	if err != nil {
		return "", c.refused(err)
	}
	return bucket.Version(strconv.FormatInt(is.Generation, 10)), nil
}

// Create implements [bucket.Bucket].
func (c *client) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	return c.put(ctx, name, bytes.NewReader(data), 0, bucket.ErrExists)
}

// Replace implements [bucket.Bucket].
func (c *client) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	is, err := generation(was)
	if err != nil {
		return "", err
	}
	return c.put(ctx, name, bytes.NewReader(data), is, bucket.ErrChanged)
}

// Delete implements [bucket.Bucket].
func (c *client) Delete(ctx context.Context, name string) error {
	err := c.objects.Delete(c.name, name).Context(ctx).Do()
	if status(err) == http.StatusNotFound { // or there is no bucket, which the first write tells
		return nil
	}
	return c.refused(err)
}

// List implements [bucket.Bucket]. Google's lists begin at a name, not behind it.
func (c *client) List(ctx context.Context, prefix, after string, limit int) (bucket.Page, error) {
	most := min(limit+1, bucket.MostListed)
	q := c.objects.List(c.name).Context(ctx).Prefix(prefix).MaxResults(int64(most)).
		Fields("items(name,size,updated),nextPageToken")
	if after != "" {
		q.StartOffset(after)
	}
	answer, err := q.Do()
	for err == nil && len(answer.Items) == 0 && answer.NextPageToken != "" { // that happens
		answer, err = q.PageToken(answer.NextPageToken).Do()
	}
	if err != nil {
		return bucket.Page{}, c.refused(err)
	}
	page := bucket.Page{More: answer.NextPageToken != ""}
	for _, o := range answer.Items {
		if o.Name == after {
			continue
		}
		if len(page.Entries) == limit {
			page.More = true
			break
		}
		modified, err := time.Parse(time.RFC3339, o.Updated)
		if err != nil {
			return bucket.Page{}, fmt.Errorf("list %s: the time of %s: %w", prefix, o.Name, err)
		}
		page.Entries = append(page.Entries, bucket.Entry{Name: o.Name, Size: int64(o.Size), Modified: modified})
	}
	return page, nil
}
