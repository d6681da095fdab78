package engine

import "fmt"

// TokensLeft says what the limiter still knows of; "" is nothing.
func (e *Engine) TokensLeft() string {
	e.limiter.mu.Lock()
	defer e.limiter.mu.Unlock()
	left := ""
	for _, l := range e.limiter.sorted() {
		left += fmt.Sprintf("%v: %d in force, %d reserved, %d lines; ", l.key, l.inForce, l.reserved, len(l.lines))
	}
	return left
}
