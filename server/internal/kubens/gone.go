package kubens

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// askTimeout bounds the question whether a namespace is there.
const askTimeout = 30 * time.Second

// isGone reports whether the API server says, itself and at this moment, that it has no such namespace. What
// a cache says may be late, and what a proxy says about a path is no word about a namespace, unless the
// server has told that it was deleted.
func isGone(ctx context.Context, client *Client, name string, told bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := client.get(ctx, name) // without a version: the latest
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsNotFound(err) && (told || !apierrors.IsUnexpectedServerError(err)):
		return true, nil
	}
	return false, fmt.Errorf("whether it is gone cannot be learnt: %w", err)
}
