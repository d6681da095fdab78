package engine

import (
	"context"

	"github.com/carillonhq/carillon"
)

// GetNamespace is refused by name until it is built.
func (e *Engine) GetNamespace(context.Context, string) (carillon.Namespace, error) {
	return carillon.Namespace{}, carillon.NotSupported("namespace")
}

// PutNamespace is refused by name until it is built.
func (e *Engine) PutNamespace(context.Context, carillon.Namespace) (carillon.Namespace, error) {
	return carillon.Namespace{}, carillon.NotSupported("namespace")
}
