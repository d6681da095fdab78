package client

import (
	"context"

	"github.com/carillonhq/carillon"
)

// GetNamespace is refused by name until it is built.
func (c *Client) GetNamespace(context.Context, string) (carillon.Namespace, error) {
	return carillon.Namespace{}, carillon.NotSupported("namespace")
}

// PutNamespace is refused by name until it is built.
func (c *Client) PutNamespace(context.Context, carillon.Namespace) (carillon.Namespace, error) {
	return carillon.Namespace{}, carillon.NotSupported("namespace")
}

// SkipRun is refused by name until it is built.
func (c *Client) SkipRun(context.Context, carillon.Key) (carillon.Skip, error) {
	return carillon.Skip{}, carillon.NotSupported("skip")
}
