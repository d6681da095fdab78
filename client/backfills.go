package client

import (
	"context"

	"github.com/carillonhq/carillon"
)

// StartBackfill is refused by name until it is built.
func (c *Client) StartBackfill(context.Context, carillon.Key, carillon.BackfillSpec) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}

// GetBackfill is refused by name until it is built.
func (c *Client) GetBackfill(context.Context, string, string) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}

// ListBackfills is refused by name until it is built.
func (c *Client) ListBackfills(context.Context, carillon.Key) ([]carillon.Backfill, error) {
	return nil, carillon.NotSupported("backfill")
}

// CancelBackfill is refused by name until it is built.
func (c *Client) CancelBackfill(context.Context, string, string) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}
