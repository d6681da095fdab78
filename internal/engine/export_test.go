package engine

import "github.com/carillonhq/carillon/internal/partition"

// PermitsLeft describes what the limiter still holds; "" is nothing.
func (e *Engine) PermitsLeft() (left string) {
	e.limiter.locked(func(c *partition.PermitCounter) { left = c.Left() })
	return left
}
