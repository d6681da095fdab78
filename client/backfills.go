package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// StartBackfill runs a job at its past times; see [carillon.Backfills]. If the spec has no last time the
// backfill ends now, by the node's clock. Repeating the call starts another backfill.
func (c *Client) StartBackfill(ctx context.Context, key carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return backfill(c.service.StartBackfill(ctx, wire.SpecToProto(key, &spec)))
}

// GetBackfill returns a backfill with its progress; see [carillon.Backfills].
func (c *Client) GetBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return backfill(c.service.GetBackfill(ctx, &pb.GetBackfillRequest{Namespace: namespace, Id: id}))
}

// ListBackfills returns the backfills of a job; see [carillon.Backfills].
func (c *Client) ListBackfills(ctx context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	m, err := c.service.ListBackfills(ctx, &pb.ListBackfillsRequest{Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return nil, err
	}
	return wire.BackfillsFromProto(m.GetBackfills())
}

// CancelBackfill ends a backfill; see [carillon.Backfills]. Repeating it is harmless.
func (c *Client) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return backfill(c.service.CancelBackfill(ctx, &pb.CancelBackfillRequest{Namespace: namespace, Id: id}))
}
