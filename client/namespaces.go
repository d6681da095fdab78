package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// GetNamespace returns a namespace's settings; see [carillon.Namespaces].
func (c *Client) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	return namespace(c.service.GetNamespace(ctx, &pb.GetNamespaceRequest{Name: name}))
}

// PutNamespace replaces a namespace's settings; see [carillon.Namespaces].
func (c *Client) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return namespace(c.service.PutNamespace(ctx, wire.PutNamespaceToProto(&ns)))
}

func namespace(m *pb.Namespace, err error) (carillon.Namespace, error) {
	if err != nil {
		return carillon.Namespace{}, err
	}
	return wire.NamespaceFromProto(m), nil
}
