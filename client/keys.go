package client

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

var _ carillon.Access = (*Client)(nil)

// CreateKey makes an API key; see [carillon.Access].
func (c *Client) CreateKey(ctx context.Context, k carillon.NewKey) (carillon.CreatedKey, error) {
	m, err := c.access.CreateKey(ctx, wire.NewKeyToProto(&k))
	if err != nil {
		return carillon.CreatedKey{}, err
	}
	return carillon.CreatedKey{Key: wire.KeyFromProto(m.GetKey()), Secret: m.GetSecret()}, nil
}

// ListKeys returns a page of keys; see [carillon.Access].
func (c *Client) ListKeys(ctx context.Context, q carillon.KeyQuery) (carillon.KeyPage, error) {
	m, err := c.access.ListKeys(ctx, &pb.ListKeysRequest{PageSize: int32(min(max(q.PageSize, -1), 1<<20)),
		PageToken: q.PageToken})
	page := carillon.KeyPage{NextPageToken: m.GetNextPageToken()}
	for _, k := range m.GetKeys() {
		page.Keys = append(page.Keys, wire.KeyFromProto(k))
	}
	return page, err
}

// RotateKey gives a key another secret; see [carillon.Access].
func (c *Client) RotateKey(ctx context.Context, id string,
	overlap time.Duration) (k carillon.CreatedKey, unheard []string, err error) {
	m, err := c.access.RotateKey(ctx, &pb.RotateKeyRequest{Id: id, Overlap: overlap.String()})
	if err != nil {
		return k, nil, err
	}
	k = carillon.CreatedKey{Key: wire.KeyFromProto(m.GetKey()), Secret: m.GetSecret()}
	return k, m.GetUnheard(), nil
}

// RevokeKey ends a key; see [carillon.Access].
func (c *Client) RevokeKey(ctx context.Context, id string) (unheard []string, err error) {
	m, err := c.access.RevokeKey(ctx, &pb.RevokeKeyRequest{Id: id})
	return m.GetUnheard(), err
}
