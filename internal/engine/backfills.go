package engine

import (
	"context"

	"github.com/carillonhq/carillon"
)

// StartBackfill is refused by name until it is built.
func (e *Engine) StartBackfill(context.Context, carillon.Key, carillon.BackfillSpec) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}

// GetBackfill is refused by name until it is built.
func (e *Engine) GetBackfill(context.Context, string, string) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}

// ListBackfills is refused by name until it is built.
func (e *Engine) ListBackfills(context.Context, carillon.Key) ([]carillon.Backfill, error) {
	return nil, carillon.NotSupported("backfill")
}

// CancelBackfill is refused by name until it is built.
func (e *Engine) CancelBackfill(context.Context, string, string) (carillon.Backfill, error) {
	return carillon.Backfill{}, carillon.NotSupported("backfill")
}
