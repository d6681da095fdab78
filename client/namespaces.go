package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// GetNamespace returns a namespace's settings; see [carillon.Namespaces].
func (c *Client) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	m, err := c.service.GetNamespace(ctx, &pb.GetNamespaceRequest{Name: name})
	if err != nil {
		return carillon.Namespace{}, err
	}
	return wire.NamespaceFromProto(m)
}

// ListNamespaces returns a page of namespaces; see [carillon.Namespaces].
func (c *Client) ListNamespaces(ctx context.Context,
	q carillon.NamespaceQuery) (carillon.NamespacePage, error) {
	m, err := c.service.ListNamespaces(ctx, wire.NamespaceQueryToProto(q))
	if err != nil {
		return carillon.NamespacePage{}, err
	}
	return wire.NamespacePageFromProto(m)
}

// PutNamespace replaces a namespace's settings; see [carillon.Namespaces].
func (c *Client) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	m, err := c.service.PutNamespace(ctx, wire.PutNamespaceToProto(&ns))
	if err != nil {
		return carillon.Namespace{}, err
	}
	return wire.NamespaceFromProto(m)
}
