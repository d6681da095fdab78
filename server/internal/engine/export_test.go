package engine

import "github.com/carillonhq/carillon/server/internal/permit"

// PermitsLeft describes what the limiter still holds; "" is nothing.
func (e *Engine) PermitsLeft() (left string) {
	e.limiter.locked(func(c *permit.Counter) { left = c.Left() })
	return left
}

// WatchersMost is how many watchers a node has at most.
const WatchersMost = watchersMost
