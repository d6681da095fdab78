package chaos

import "github.com/carillonhq/carillon/server/internal/testing/checker"

// Answers is answers, for tests.
type Answers struct{ a answers }

// NewAnswers makes one to which nothing was said.
func NewAnswers() *Answers { return &Answers{newAnswers()} }

// Said is said.
func (a *Answers) Said(token string, place int) { a.a.said(token, place) }

// Told is told.
func (a *Answers) Told(token string, v checker.ResultVerdict) (place int, ok bool) {
	return a.a.told(token, v)
}
