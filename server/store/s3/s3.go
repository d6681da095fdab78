// Package s3 opens stores in buckets of Amazon S3, and of other servers that speak its protocol and honour
// its conditions, If-None-Match and If-Match.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Options of a bucket. Bucket is needed.
type Options struct {
	Bucket string
	// Region of the bucket; empty = what the environment says.
	Region string
	// Endpoint is the URL of another server than Amazon's; empty = what the environment says, or Amazon's.
	Endpoint string
	// PathStyle puts the bucket in the path of requests, not in the name of the host.
	PathStyle bool
	// Credentials; nil = those of the environment, as the AWS SDK finds them.
	Credentials aws.CredentialsProvider
}

// watched is an HTTP client whose requests are seen.
type watched struct {
	s3.HTTPClient
	by *bucket.Watch
}

func (w watched) Do(q *http.Request) (*http.Response, error) { return w.by.Do(q, w.HTTPClient.Do) }

// client is a bucket.
type client struct {
	name string
	s3   *s3.Client
}

var (
	_ bucket.Bucket   = (*client)(nil)
	_ bucket.Streamer = (*client)(nil)
)

// New returns a bucket. A watch, if there is one, sees its requests. It does not ask whether the
// bucket is there.
func New(ctx context.Context, o Options, w *bucket.Watch) (bucket.Bucket, error) {
	loading := []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if o.Region != "" {
		loading = append(loading, config.WithRegion(o.Region))
	}
	if o.Credentials != nil {
		loading = append(loading, config.WithCredentialsProvider(o.Credentials))
	}
	c, err := config.LoadDefaultConfig(ctx, loading...)
	if err != nil {
		return nil, fmt.Errorf("store: s3: the settings of AWS in the environment: %w", err)
	}
	if c.Region == "" {
		return nil, errors.New("store: s3: there is no region: give region= in the URL, or AWS_REGION in the environment")
	}
	return &client{o.Bucket, s3.NewFromConfig(c, func(so *s3.Options) {
		so.UsePathStyle = o.PathStyle
		if o.Endpoint != "" {
			so.BaseEndpoint = &o.Endpoint
		}
		if w != nil {
			so.HTTPClient = watched{so.HTTPClient, w}
		}
	})}, nil
}

// status is the HTTP status of an error; 0 if there was no answer.
func status(err error) int {
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return answer.HTTPStatusCode()
	}
	return 0
}

// Get implements [bucket.Bucket].
func (c *client) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	answer, err := c.ask(ctx, name, known)
	if err != nil {
		return bucket.Object{}, err
	}
	data, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return bucket.Object{}, fmt.Errorf("read %s: %w", name, err)
	}
	return bucket.Object{Data: data, Version: bucket.Version(aws.ToString(answer.ETag))}, nil
}

// ask asks for an object.
func (c *client) ask(ctx context.Context, name string, known bucket.Version) (*s3.GetObjectOutput, error) {
	q := &s3.GetObjectInput{Bucket: &c.name, Key: &name}
	if known != "" {
		q.IfNoneMatch = aws.String(string(known))
	}
	answer, err := c.s3.GetObject(ctx, q)
	switch status(err) {
	case http.StatusNotFound:
		return nil, c.absent(err)
	case http.StatusNotModified:
		return nil, bucket.ErrSame
	}
	return answer, c.refused(err)
}

// Open implements [bucket.Streamer].
func (c *client) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	answer, err := c.ask(ctx, name, "")
	if err != nil {
		return nil, 0, err
	}
	return answer.Body, aws.ToInt64(answer.ContentLength), nil
}

// code is that of an error of S3; empty if it is another one.
func code(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok {
		return coded.ErrorCode()
	}
	return ""
}

// absent tells an object that is not there from a bucket that is not, and both from what others do not find:
// credentials are looked for elsewhere.
func (c *client) absent(err error) error {
	switch code(err) {
	case "NoSuchKey", "NotFound":
		return bucket.ErrAbsent
	}
	return c.refused(err)
}

// refused marks what will not pass by itself: there is no such bucket, it is in another region, or
// credentials are wrong or may not.
func (c *client) refused(err error) error {
	switch code(err) {
	case "NoSuchBucket":
		return fmt.Errorf("%w: there is no bucket %q: %w", bucket.ErrRefused, c.name, err)
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidBucketName",
		"AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fmt.Errorf("%w: %w", bucket.ErrRefused, err)
	}
	return err
}

func (c *client) put(ctx context.Context, q *s3.PutObjectInput, data io.ReadSeeker,
	size int64) (bucket.Version, error) {
	q.Bucket, q.Body, q.ContentLength = &c.name, data, &size
	answer, err := c.s3.PutObject(ctx, q)
	if err != nil {
		return "", err
	}
	return bucket.Version(aws.ToString(answer.ETag)), nil
}

// Create implements [bucket.Bucket].
func (c *client) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	return c.putNew(ctx, name, bytes.NewReader(data), int64(len(data)))
}

func (c *client) putNew(ctx context.Context, name string, r io.ReadSeeker,
	size int64) (bucket.Version, error) {
	v, err := c.put(ctx, &s3.PutObjectInput{Key: &name, IfNoneMatch: aws.String("*")}, r, size)
	if status(err) == http.StatusPreconditionFailed {
		return "", bucket.ErrExists
	}
	return v, c.refused(err)
}

// CreateFrom implements [bucket.Streamer].
func (c *client) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, size int64) error {
	_, err := c.putNew(ctx, name, r, size)
	return err
}

// Replace implements [bucket.Bucket].
func (c *client) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	v, err := c.put(ctx, &s3.PutObjectInput{Key: &name, IfMatch: aws.String(string(was))}, bytes.NewReader(data),
		int64(len(data)))
	switch status(err) {
	case http.StatusPreconditionFailed:
		return "", bucket.ErrChanged
	case http.StatusNotFound:
		if err = c.absent(err); errors.Is(err, bucket.ErrAbsent) {
			return "", bucket.ErrChanged
		}
	}
	return v, err
}

// Delete implements [bucket.Bucket].
func (c *client) Delete(ctx context.Context, name string) error {
	_, err := c.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &c.name, Key: &name})
	if err = c.absent(err); errors.Is(err, bucket.ErrAbsent) {
		return nil
	}
	return err
}

// List implements [bucket.Bucket].
func (c *client) List(ctx context.Context, prefix, after string, limit int) (bucket.Page, error) {
	q := &s3.ListObjectsV2Input{Bucket: &c.name, Prefix: &prefix, MaxKeys: aws.Int32(int32(limit))}
	if after != "" {
		q.StartAfter = &after
	}
	answer, err := c.s3.ListObjectsV2(ctx, q)
	if err != nil {
		return bucket.Page{}, c.refused(err)
	}
	page := bucket.Page{More: aws.ToBool(answer.IsTruncated),
		Entries: make([]bucket.Entry, len(answer.Contents))}
	for i, o := range answer.Contents {
		page.Entries[i] = bucket.Entry{Name: aws.ToString(o.Key), Size: aws.ToInt64(o.Size),
			Modified: aws.ToTime(o.LastModified)}
	}
	if page.More && len(page.Entries) == 0 {
		return page, errors.New("a page of the list without entries, that is not the last")
	}
	return page, nil
}
