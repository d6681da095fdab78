package engine

import "github.com/carillonhq/carillon/internal/partition"

// TokensLeft says what the limiter still knows of; "" is nothing.
func (e *Engine) TokensLeft() (left string) {
	e.limiter.locked(func(c *partition.TokenCounter) { left = c.Left() })
	return left
}
