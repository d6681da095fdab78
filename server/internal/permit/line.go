package permit

import "container/heap"

// queued is an element of a line, which knows whom it precedes and keeps its index in the line; -1 if it is
// in none.
type queued[T any] interface {
	before(T) bool
	index() *int
}

// line is a heap of those that wait, from which any can be removed.
type line[T queued[T]] []T

// add puts x into the line. It must be in none.
func (l *line[T]) add(x T) { heap.Push(l, x) }

// remove takes x out if it is in the line.
func (l *line[T]) remove(x T) {
	if i := *x.index(); i >= 0 {
		heap.Remove(l, i)
	}
}

// Len implements [heap.Interface].
func (l line[T]) Len() int { return len(l) }

// Less implements [heap.Interface].
func (l line[T]) Less(i, j int) bool { return l[i].before(l[j]) }

// Swap implements [heap.Interface].
func (l line[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	*l[i].index(), *l[j].index() = i, j
}

// Push implements [heap.Interface].
func (l *line[T]) Push(x any) {
	e := x.(T)
	*e.index() = len(*l)
	*l = append(*l, e)
}

// Pop implements [heap.Interface].
func (l *line[T]) Pop() any {
	old := *l
	e := old[len(old)-1]
	clear(old[len(old)-1:])
	*l = old[:len(old)-1]
	*e.index() = -1
	return e
}
