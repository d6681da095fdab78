// Package azblob opens stores in containers of Azure Blob Storage, by its conditions on ETags.
package azblob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Options of a container. Container is needed.
type Options struct {
	Container string
	// Account is the storage account; empty = that of AZURE_STORAGE_ACCOUNT.
	Account string
	// Endpoint is the URL of the account on another server than Microsoft's.
	Endpoint string
	// Key is the account's key; empty = AZURE_STORAGE_KEY, or AZURE_STORAGE_SAS_TOKEN, or else the identity that
	// the environment gives to the process, as the SDK finds it.
	Key string
}

// client is a bucket.
type client struct {
	name  string
	blobs *container.Client
}

var (
	_ bucket.Bucket   = (*client)(nil)
	_ bucket.Streamer = (*client)(nil)
)

// New returns a bucket. A watch, if there is one, sees its requests. It does not ask whether the
// container is there.
func New(_ context.Context, o Options, w *bucket.Watch) (bucket.Bucket, error) {
	o.Account = cmp.Or(o.Account, os.Getenv("AZURE_STORAGE_ACCOUNT"))
	if o.Account == "" {
		return nil, errors.New("store: azblob: there is no storage account: give account= in the URL, or " +
			"AZURE_STORAGE_ACCOUNT in the environment")
	}
	at := cmp.Or(o.Endpoint, "https://"+o.Account+".blob.core.windows.net") + "/" + o.Container
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: -1}, // none
		Transport: &http.Client{Transport: w.Transport()},
	}}
	blobs, err := o.client(at, options)
	if err != nil {
		return nil, fmt.Errorf("store: azblob: %w", err)
	}
	return &client{o.Container, blobs}, nil
}

// client has the credentials that there are.
func (o Options) client(at string, options *container.ClientOptions) (*container.Client, error) {
	if key := cmp.Or(o.Key, os.Getenv("AZURE_STORAGE_KEY")); key != "" {
		credential, err := container.NewSharedKeyCredential(o.Account, key)
		if err != nil {
			return nil, fmt.Errorf("the key of the account: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(at, credential, options)
	}
	if token := strings.TrimPrefix(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), "?"); token != "" {
		if _, err := url.ParseQuery(token); err != nil {
			return nil, errors.New("AZURE_STORAGE_SAS_TOKEN is not a SAS token")
		}
		return container.NewClientWithNoCredential(at+"?"+token, options)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("the identity of this process: %w", err)
	}
	return container.NewClient(at, credential, options)
}

// status is the HTTP status of an error; 0 if there was no answer.
func status(err error) int {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return answer.StatusCode
	}
	return 0
}

// refused marks what will not pass by itself.
func (c *client) refused(err error) error {
	switch status(err) {
	case http.StatusNotFound:
		return fmt.Errorf("%w: there is no container %q: %w", bucket.ErrRefused, c.name, err)
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", bucket.ErrRefused, err)
	}
	return err // also that of an identity that is not to be had: it may be a passing one
}

// when is the condition on an ETag; empty fields are none.
func when(is, isNot azcore.ETag) *blob.AccessConditions {
	var c blob.ModifiedAccessConditions
	if is != "" {
		c.IfMatch = &is
	}
	if isNot != "" {
		c.IfNoneMatch = &isNot
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &c}
}

func version(etag *azcore.ETag) bucket.Version {
	if etag == nil {
		return ""
	}
	return bucket.Version(*etag)
}

// Get implements [bucket.Bucket].
func (c *client) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	answer, err := c.blobs.NewBlobClient(name).DownloadStream(ctx,
		&blob.DownloadStreamOptions{AccessConditions: when("", azcore.ETag(known))})
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return bucket.Object{}, bucket.ErrAbsent
	case err != nil:
		return bucket.Object{}, c.refused(err)
	case answer.Body == nil: // that is how the SDK says that the condition does not hold
		return bucket.Object{}, bucket.ErrSame
	}
	data, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return bucket.Object{}, fmt.Errorf("read %s: %w", name, err)
	}
	return bucket.Object{Data: data, Version: version(answer.ETag)}, nil
}

// Open implements [bucket.Streamer].
func (c *client) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	answer, err := c.blobs.NewBlobClient(name).DownloadStream(ctx, nil)
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return nil, 0, bucket.ErrAbsent
	case err != nil:
		return nil, 0, c.refused(err)
	case answer.ContentLength == nil:
		return nil, 0, errors.Join(fmt.Errorf("read %s: the answer does not say how long it is", name),
			answer.Body.Close())
	}
	return answer.Body, *answer.ContentLength, nil
}

// CreateFrom implements [bucket.Streamer].
func (c *client) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, _ int64) error {
	_, err := c.putNew(ctx, name, r)
	return err
}

func (c *client) put(ctx context.Context, name string, data io.ReadSeeker,
	on *blob.AccessConditions) (bucket.Version, error) {
	answer, err := c.blobs.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(data),
		&blockblob.UploadOptions{AccessConditions: on})
	return version(answer.ETag), err
}

// Create implements [bucket.Bucket].
func (c *client) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	return c.putNew(ctx, name, bytes.NewReader(data))
}

func (c *client) putNew(ctx context.Context, name string, data io.ReadSeeker) (bucket.Version, error) {
	v, err := c.put(ctx, name, data, when("", azcore.ETagAny))
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return "", bucket.ErrExists
	}
	return v, c.refused(err)
}

// Replace implements [bucket.Bucket].
func (c *client) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	v, err := c.put(ctx, name, bytes.NewReader(data), when(azcore.ETag(was), ""))
	if bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobNotFound) {
		return "", bucket.ErrChanged
	}
	return v, c.refused(err)
}

// Delete implements [bucket.Bucket].
func (c *client) Delete(ctx context.Context, name string) error {
	_, err := c.blobs.NewBlobClient(name).Delete(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil
	}
	return c.refused(err)
}

// List implements [bucket.Bucket]. Azure's lists begin at a name, not behind it, and those of servers that do
// not know how to begin anywhere at the prefix.
func (c *client) List(ctx context.Context, prefix, after string, limit int) (bucket.Page, error) {
	most := int32(min(limit+1, bucket.MostListed))
	q := &container.ListBlobsFlatOptions{Prefix: &prefix, MaxResults: &most}
	if after != "" {
		q.StartFrom = &after
	}
	var page bucket.Page
	for pages := c.blobs.NewListBlobsFlatPager(q); pages.More() && len(page.Entries) == 0; {
		answer, err := pages.NextPage(ctx)
		if err != nil {
			return bucket.Page{}, c.refused(err)
		}
		page.More = pages.More()
		for _, b := range answer.Segment.BlobItems {
			switch {
			case *b.Name <= after:
			case len(page.Entries) == limit:
				page.More = true
			default:
				page.Entries = append(page.Entries,
					bucket.Entry{Name: *b.Name, Size: *b.Properties.ContentLength, Modified: *b.Properties.LastModified})
			}
		}
	}
	return page, nil
}
