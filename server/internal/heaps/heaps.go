// Package heaps has the heap in which whatever waits stands in order: timers, due runs, lines for permits.
package heaps

// Item is an element of a heap. It knows whom it precedes, and keeps its index in the heap, -1 while it is in
// none.
type Item[T any] interface {
	Before(T) bool
	At() *int32
}

// Of is a heap, the first item at index 0, from which any item can be removed. Each item has [Arity] items
// below it.
type Of[T Item[T]] []T

// Arity is the number of items below each. Four need fewer levels than two, and they are neighbours in
// memory.
const Arity = 4

// Add puts x into the heap. It must be in none.
func (h *Of[T]) Add(x T) {
	*h = append(*h, x)
	h.Fix(int32(len(*h) - 1))
}

// Remove takes x out if it is in the heap.
func (h *Of[T]) Remove(x T) {
	at, last := *x.At(), int32(len(*h)-1)
	if at < 0 {
		return
	}
	(*h)[at] = (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*x.At() = -1
	if at < last {
		h.Fix(at)
	}
}

// Fix moves the item at an index to where it belongs.
func (h Of[T]) Fix(at int32) {
	moving, i := h[at], int(at)
	for above := (i - 1) / Arity; i > 0 && moving.Before(h[above]); above = (i - 1) / Arity {
		h.put(i, h[above])
		i = above
	}
	for {
		least := h.leastBelow(i)
		if least < 0 || !h[least].Before(moving) {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, moving)
}

// leastBelow returns the index of the first of the items below i, -1 if there are none.
func (h Of[T]) leastBelow(i int) int {
	from := Arity*i + 1
	if from >= len(h) {
		return -1
	}
	least := from
	for j := from + 1; j < min(from+Arity, len(h)); j++ {
		if h[j].Before(h[least]) {
			least = j
		}
	}
	return least
}

func (h Of[T]) put(i int, x T) {
	h[i] = x
	*x.At() = int32(i)
}
