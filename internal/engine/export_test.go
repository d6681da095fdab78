package engine

import "github.com/carillonhq/carillon/internal/partition"

// PermitsLeft says what the limiter still knows of; "" is nothing.
func (e *Engine) PermitsLeft() (left string) {
	e.limiter.locked(func(c *partition.PermitCounter) { left = c.Left() })
	return left
}
