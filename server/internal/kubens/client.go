package kubens

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Client reads the names of namespaces. An API server that cannot say them alone may send whole namespaces.
type Client struct{ api rest.Interface }

var v1 = schema.GroupVersion{Version: "v1"}

// What is asked for: metadata in JSON, or else whatever there is in JSON.
const (
	acceptOne  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptMany = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// NewClient returns a client of the API server that the configuration names.
func NewClient(config *rest.Config) (*Client, error) {
	c := metadata.ConfigFor(config)
	c.UserAgent = "carillon"
	c.WarningHandler = rest.NoWarnings{} // they are for those who write objects
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.APIPath, c.GroupVersion = "/api", &v1
	api, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("the API server of Kubernetes cannot be reached with this configuration: %w", err)
	}
	return &Client{api}, nil
}

// get fails if the namespace is not there.
func (c *Client) get(ctx context.Context, name string) error {
	return c.api.Get().Resource("namespaces").Name(name).SetHeader("Accept", acceptOne).Do(ctx).Error()
}

// IsWatchListSemanticsUnSupported lets the namespaces be listed, by a list: they are few, and every server
// can do that.
func (*Client) IsWatchListSemanticsUnSupported() bool { return true }

// List implements [k8s.io/client-go/tools/cache.Lister].
func (c *Client) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), o)
}

// ListWithContext is List until ctx ends.
func (c *Client) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	body, err := c.many(o).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	if err := json.Unmarshal(body, list); err != nil {
		return nil, fmt.Errorf("the list of namespaces: %w", err)
	}
	return list, nil
}

// Watch implements [k8s.io/client-go/tools/cache.Watcher].
func (c *Client) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), o)
}

// WatchWithContext is Watch until ctx ends.
func (c *Client) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	body, err := c.many(o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	broken := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "decode a watch")
	return watch.NewStreamWatcher(&changes{body, json.NewDecoder(body)}, broken), nil
}

func (c *Client) many(o metav1.ListOptions) *rest.Request {
	return c.api.Get().Resource("namespaces").SetHeader("Accept", acceptMany).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, v1)
}

// changes reads the events of a watch.
type changes struct {
	io.Closer
	from *json.Decoder
}

// Close implements [watch.Decoder].
func (c *changes) Close() { _ = c.Closer.Close() } // it is only read

// Decode implements [watch.Decoder].
func (c *changes) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := c.from.Decode(&event); err != nil {
		return "", nil, err
	}
	var object runtime.Object = &metav1.PartialObjectMetadata{}
	if event.Type == watch.Error {
		object = &metav1.Status{}
	}
	return event.Type, object, json.Unmarshal(event.Object, object)
}
